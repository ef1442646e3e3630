// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestACoverAttacksEveryScenarioByAMutantOfItsOwn(t *testing.T) {
	var r Registry
	for id, mutants := range map[string][]string{
		"net.tcp":  {"all-open", "tcp-open"},
		"net.udp":  {"all-open", "udp-open"},
		"net.icmp": {"all-open"},
		"disk.tmp": {"tmp-b", "tmp-a"},
	} {
		s := valid(id)
		s.Mutants = mutants
		r.MustAdd(s)
	}
	assert.Equal(t, []string{"all-open", "tcp-open", "tmp-a", "tmp-b", "udp-open"}, r.Mutants())
	assert.Equal(t, []string{"all-open", "tmp-a"}, r.Cover(every, none), "the largest first, then by name")
}

func every(string) bool { return true }
func none(string) bool  { return false }

func TestWhatOthersReachIsLeftToThem(t *testing.T) {
	var r Registry
	a, b := valid("net.tcp"), valid("net.udp")
	a.Mutants, b.Mutants = []string{"all-open", "elsewhere-tcp-open"}, []string{"all-open", "udp-open"}
	r.MustAdd(a, b)
	own := func(m string) bool { return m == "all-open" || m == "udp-open" }
	assert.Equal(t, []string{"all-open"}, r.Cover(own, func(m string) bool { return m == "elsewhere-tcp-open" }))
	assert.Empty(t, r.Cover(own, own), "all of it")
}

func TestAMutantThatMayNotBePickedCoversNothing(t *testing.T) {
	var r Registry
	a, b := valid("net.tcp"), valid("net.udp")
	a.Mutants, b.Mutants = []string{"all-open", "tcp-open"}, []string{"all-open"}
	r.MustAdd(a, b)
	assert.Equal(t, []string{"tcp-open"}, r.Cover(func(m string) bool { return m != "all-open" }, none))
}

func TestNothingIsCoveredByNothing(t *testing.T) {
	assert.Empty(t, new(Registry).Cover(every, none))
}
