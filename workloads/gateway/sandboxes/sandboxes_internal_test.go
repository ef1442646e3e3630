// SPDX-License-Identifier: Apache-2.0

package sandboxes

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestWhatTheAPIServerRefusedWasNotDone(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"a refusal":              {apierrors.NewForbidden(Claims.GroupResource(), "a", nil), false},
		"too many requests":      {apierrors.NewTooManyRequests("later", 1), false},
		"nobody listens":         {fmt.Errorf("dialing: %w", syscall.ECONNREFUSED), false},
		"given up":               {fmt.Errorf("posting: %w", context.Canceled), true},
		"a connection lost":      {fmt.Errorf("reading: %w", syscall.ECONNRESET), true},
		"out of time over there": {apierrors.NewTimeoutError("slow", 1), true},
	} {
		assert.Equal(t, c.want, unsure(c.err), name)
	}
}
