// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"net"
	"slices"
	"sync"
)

// fair is a listener that closes an address's oldest connection where it has one
// too many. The oldest, because the address may be another client's by now.
type fair struct {
	net.Listener
	most int

	mu   sync.Mutex
	open map[string][]*counted // by address, without the port; the oldest first
}

// Accept implements [net.Listener].
func (f *fair) Accept() (net.Conn, error) {
	for {
		conn, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
		if err != nil {
			_ = conn.Close() // nothing was said on it
			continue
		}
		c := &counted{Conn: conn, f: f, host: host}
		if oldest := f.add(c); oldest != nil {
			_ = oldest.Close() // its client is told by that
		}
		return c, nil
	}
}

// add returns the connection that has to go for this one, if there is one.
func (f *fair) add(c *counted) (oldest *counted) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[c.host] = append(f.open[c.host], c)
	if all := f.open[c.host]; len(all) > f.most {
		return all[0]
	}
	return nil
}

func (f *fair) remove(c *counted) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := slices.DeleteFunc(f.open[c.host], func(o *counted) bool { return o == c })
	if len(left) == 0 {
		delete(f.open, c.host)
		return
	}
	f.open[c.host] = left
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	f    *fair
	host string
}

// Close implements [net.Conn].
func (c *counted) Close() error {
	c.f.remove(c)
	return c.Conn.Close()
}
