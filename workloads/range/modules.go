// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/stockade-dev/stockade/workloads/range/world"
)

// moduleFiles are the one module that there is.
var moduleFiles = map[string]string{
	"go.mod": "module " + world.GoModule + "\n\ngo 1.21\n",
	"greeting.go": `// Package greeting is what the range's module proxy has.
package greeting

// Hello greets.
func Hello(name string) string { return "hello, " + name }
`,
}

// moduleZip is the module as https://go.dev/ref/mod#zip-files wants it.
var moduleZip = sync.OnceValues(func() ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range []string{"go.mod", "greeting.go"} {
		f, err := w.Create(world.GoModule + "@" + world.GoModuleVersion + "/" + name)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write([]byte(moduleFiles[name])); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
})

// moduleTime is when the version was made: any time, but always the same.
const moduleTime = "2026-01-01T00:00:00Z"

// isModule recognises a request of the GOPROXY protocol, at whatever path the
// proxy is meant to be: https://go.dev/ref/mod#goproxy-protocol
func isModule(req *http.Request) bool {
	return strings.Contains(req.URL.Path, "/@v/") || strings.HasSuffix(req.URL.Path, "/@latest")
}

// moduleReply answers for the one module, and that there is no other. The go
// command takes 404 for a statement and asks whoever is next.
func moduleReply(req *http.Request, nonces []string) reply {
	rep := markerReply(nonces)
	say := func(contentType string, body []byte) reply {
		rep.header.Set("Content-Type", contentType)
		rep.body = body
		return rep
	}
	_, what, ok := strings.Cut(req.URL.Path, "/"+world.GoModule+"/@")
	if !ok || req.Method != http.MethodGet && req.Method != http.MethodHead {
		rep.status = http.StatusNotFound
		return rep
	}
	switch what {
	case "v/list":
		return say("text/plain; charset=utf-8", []byte(world.GoModuleVersion+"\n"))
	case "latest", "v/" + world.GoModuleVersion + ".info":
		return say("application/json", fmt.Appendf(nil, `{"Version":%q,"Time":%q}`, world.GoModuleVersion, moduleTime))
	case "v/" + world.GoModuleVersion + ".mod":
		return say("text/plain; charset=utf-8", []byte(moduleFiles["go.mod"]))
	case "v/" + world.GoModuleVersion + ".zip":
		archive, err := moduleZip()
		if err != nil {
			rep.status = http.StatusInternalServerError
			return rep
		}
		return say("application/zip", archive)
	}
	rep.status = http.StatusNotFound
	return rep
}
