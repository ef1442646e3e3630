// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

func TestAnErrorIsClassifiedByItsNumber(t *testing.T) {
	for no, want := range map[syscall.Errno]verdict.Class{
		syscall.EPERM: verdict.Permission, syscall.EACCES: verdict.Permission, syscall.ENOSYS: verdict.NoSyscall,
		syscall.EROFS: verdict.ReadOnly, syscall.ENOSPC: verdict.NoSpace, syscall.EDQUOT: verdict.NoSpace,
		syscall.ENOENT: verdict.Absent, syscall.ENOTDIR: verdict.Absent,
		syscall.ENODEV: verdict.Unsupported, syscall.ENXIO: verdict.Unsupported, syscall.EOPNOTSUPP: verdict.Unsupported,
		syscall.EAFNOSUPPORT: verdict.Unsupported,
		syscall.ENOMEM:       verdict.ResourceLimit, syscall.EMFILE: verdict.ResourceLimit, syscall.ENFILE: verdict.ResourceLimit,
		syscall.ECONNREFUSED: verdict.Refused, syscall.ECONNRESET: verdict.Reset, syscall.EHOSTUNREACH: verdict.Unreachable,
		syscall.ETIMEDOUT: verdict.Dropped,
		syscall.EINVAL:    verdict.Unknown, syscall.EINTR: verdict.Unknown, syscall.EIO: verdict.Unknown,
	} {
		assert.Equal(t, want, Classify(fmt.Errorf("wrapped: %w", &os.PathError{Op: "open", Path: "/x", Err: no})), no)
	}
}

func TestOnlyASilenceThatWasWaitedForIsDropped(t *testing.T) {
	assert.Equal(t, verdict.Dropped, Classify(os.ErrDeadlineExceeded))
	assert.Equal(t, verdict.Dropped, Classify(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}))
	assert.Equal(t, verdict.Unknown, Classify(fmt.Errorf("%w: %w", ErrCut, os.ErrDeadlineExceeded)))
	assert.Equal(t, verdict.Unknown, Classify(context.Canceled))
	assert.Equal(t, verdict.Unknown, Classify(errors.New("something else")))
	assert.Equal(t, verdict.Unknown, Classify(nil))
}

func TestAMissingNameIsNotADeadResolver(t *testing.T) {
	assert.Equal(t, verdict.NoName, Classify(&net.DNSError{IsNotFound: true}))
	assert.Equal(t, verdict.Dropped, Classify(&net.DNSError{IsTimeout: true}))
}

func TestAPlaceThatTheSiteLacksIsNoEvidence(t *testing.T) {
	assert.False(t, NoSite("x", "resolver").Class.IsEvidence())
}

func TestStepsKeepTheirOrderAndSurviveAPanic(t *testing.T) {
	steps := Together(
		func() verdict.Step { return Reached("first", "ok") },
		func() verdict.Step { panic("broken") },
		func() verdict.Step { return Denied("third", syscall.EPERM) })
	assert.Equal(t, "first", steps[0].Name)
	assert.Equal(t, verdict.Unknown, steps[1].Class)
	assert.False(t, steps[1].OK)
	assert.Equal(t, verdict.Permission, steps[2].Class)
}
