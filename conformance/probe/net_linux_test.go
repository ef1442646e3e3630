// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

func TestAnIPv6SocketReachesAMappedAddress(t *testing.T) {
	s := ReachMetadataMapped(t.Context(), testEnv(), "ask", closedPort(t))
	assert.Equal(t, verdict.Refused, s.Class, s.Detail)
	s = ReachMetadataMapped(t.Context(), testEnv(), "ask", "[::1]:80")
	assert.False(t, s.OK)
	assert.False(t, s.Class.IsEvidence(), "an IPv6 address cannot be mapped")
}

func TestAnEchoRequestCarriesTheNonceAndAValidChecksum(t *testing.T) {
	p := echo(testEnv(), 3)
	assert.Equal(t, byte(8), p[0])
	assert.Zero(t, inetSum(p), "the sum over a packet with its checksum is zero")
	assert.False(t, isEchoReply(p, testNonce, false), "one's own request is no reply")
	p[0] = 0
	assert.True(t, isEchoReply(p, testNonce, false))
	assert.False(t, isEchoReply(p, "another", false))
	raw := append(append([]byte{0x45}, make([]byte, 19)...), p...)
	assert.True(t, isEchoReply(raw, testNonce, true))
	assert.False(t, isEchoReply(raw[:10], testNonce, true))
}

func TestWithoutAnAddressNothingIsPinged(t *testing.T) {
	assert.Equal(t, verdict.ToolMissing, Ping(t.Context(), testEnv(), "ping", "", false).Class)
}
