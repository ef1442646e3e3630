// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Config says where the range stands and what it calls itself.
type Config struct {
	// Bridges are the interfaces of this network namespace behind which the
	// nodes are; at least one. They must exist.
	Bridges []string
	// NetNS is the path of the namespace that the process must be in, such as
	// /var/run/netns/NAME; "" leaves it at the checks that always hold: not
	// the host's namespace, no way out.
	NetNS string
	// Socket is the unix socket of the HTTP API, Log the NDJSON file, PIDFile
	// the file whose lock is held while the range runs. All are required,
	// and stay below one folder that only the user may enter.
	Socket, Log, PIDFile string
	// GoProxyHost is the Go module proxy's name, behind the shared front end;
	// "" means that there is none.
	GoProxyHost string
	// MaxConns bounds the open TCP connections; 0 means 1024. Beyond it, the
	// oldest is closed.
	MaxConns int
}

// Ready is printed as one JSON line when the range serves.
type Ready struct {
	Ready   bool     `json:"ready"`
	PID     int      `json:"pid"`
	Run     string   `json:"run"`
	Socket  string   `json:"socket"`
	Bridges []string `json:"bridges"`
	IPv6    bool     `json:"ipv6"`
}

// NoteSuffix is added to the name of the pid file for that of the file in which a
// range notes the settings that it changes, for whoever comes after its end.
const NoteSuffix = ".sysctl"

// maxSocketPath is what sockaddr_un holds, less the closing zero.
const maxSocketPath = 107

func (c *Config) check() error {
	switch {
	case len(c.Bridges) == 0:
		return errors.New("checking the range's settings: no bridge is named (add --bridge, the interface of the node network)")
	case c.Socket == "" || c.Log == "" || c.PIDFile == "":
		return errors.New("checking the range's settings: --socket, --log and --pidfile are all needed")
	case len(c.Socket) > maxSocketPath:
		return fmt.Errorf("checking the range's settings: the socket's path has %d bytes, %d are allowed (set STOCKADE_HOME to a shorter folder)", len(c.Socket), maxSocketPath)
	case c.MaxConns < 0:
		return errors.New("checking the range's settings: a negative number of connections")
	}
	for _, b := range c.Bridges {
		if b == "" || len(b) > 15 || strings.ContainsAny(b, "/ \x00") {
			return fmt.Errorf("checking the range's settings: %q is no interface name", b)
		}
	}
	for _, p := range []*string{&c.Socket, &c.Log, &c.PIDFile} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return fmt.Errorf("checking the range's settings: %w", err)
		}
		*p = abs
	}
	if c.MaxConns == 0 {
		c.MaxConns = 1024
	}
	return nil
}
