// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// flooded is a socket that was sent more than its queue takes, and heard nothing yet.
func flooded(t *testing.T) (d *datagrams, sent int) {
	t.Helper()
	u, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = u.Close() })
	require.NoError(t, u.SetReadBuffer(4096))
	d, err = countDrops(u)
	require.NoError(t, err)
	c, err := net.Dial("udp4", u.LocalAddr().String())
	require.NoError(t, err)
	defer c.Close()
	for sent = 0; sent < 200; sent++ {
		_, err := c.Write(make([]byte, 1000))
		require.NoError(t, err)
	}
	return d, sent
}

// The datagrams that are dropped are the last ones: nothing is queued after them
// that could tell of it.
func TestDatagramsThatNothingFollowsAreCountedWhenTheyAreDropped(t *testing.T) {
	d, sent := flooded(t)
	lost, err := d.dropped()
	require.NoError(t, err)
	heard := 0
	require.NoError(t, d.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	for buf := make([]byte, 2000); ; heard++ {
		if _, err := d.Read(buf); err != nil {
			break
		}
	}
	assert.Positive(t, lost)
	assert.EqualValues(t, sent, uint64(heard)+lost)
	lost, err = d.dropped()
	require.NoError(t, err)
	assert.Zero(t, lost, "each is told once")
	require.NoError(t, d.Close())
	_, err = d.dropped()
	require.Error(t, err)
}

func TestAHealthThatIsFreshCountsWhatWasDroppedSince(t *testing.T) {
	d, _ := flooded(t)
	l, _ := newTestLog(t)
	h := &Host{log: l, udp: []*datagrams{d}, checked: time.Now().Add(time.Hour)}
	require.NoError(t, h.check())
	assert.Positive(t, l.lost)
}

func TestAPacketOfTooManyNoncesIsLost(t *testing.T) {
	l, _ := newTestLog(t)
	s := &packetSocket{}
	s.handle(ip4(132, manyNonces()), l)
	assert.EqualValues(t, 1, l.lost)
	assert.NotEmpty(t, l.query(0, "00000000000000000000000000000001", 10))
}
