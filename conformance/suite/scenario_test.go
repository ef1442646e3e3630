// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stockade-dev/stockade/conformance/probe"
)

func TestADestinationThatTheSiteLacksIsNotLookedFor(t *testing.T) {
	site := probe.Site{PublicTCP: "203.0.113.7:8080", RFC1918: []string{"10.99.0.7:8080", "", "172.20.0.7:8080"}}
	all := NothingOut(func(s probe.Site) []string { return append([]string{s.PublicTCP, s.Metadata}, s.RFC1918...) })
	require.Len(t, all, 2)
	assert.Equal(t, RangeLog, all[0].Name)
	assert.Equal(t, Flows, all[1].Name)
	assert.Equal(t, []string{"203.0.113.7:8080", "10.99.0.7:8080", "172.20.0.7:8080"}, all[1].Flow.To(site))

	own := PolicyDrop(func(s probe.Site) []string { return s.RFC1918 })
	assert.Equal(t, []string{"10.99.0.7:8080", "172.20.0.7:8080"}, own.Flow.To(site))
	assert.Equal(t, []string{"10.99.0.7:8080", "", "172.20.0.7:8080"}, site.RFC1918, "the site is every scenario's")
}
