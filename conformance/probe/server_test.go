// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

func TestAServerIsAskedHowItIs(t *testing.T) {
	well := http.NewServeMux()
	well.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	for name, c := range map[string]struct {
		there http.Handler
		ok    bool
		class verdict.Class
	}{
		"well":          {well, true, ""},
		"somebody else": {http.NotFoundHandler(), false, verdict.Unknown},
		"gone at once":  {http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), false, verdict.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			up := httptest.NewServer(c.there)
			defer up.Close()
			s := AskServer(t.Context(), "call", strings.TrimPrefix(up.URL, "http://"))
			assert.Equal(t, c.ok, s.OK, s.Detail)
			assert.Equal(t, c.class, s.Class, s.Detail)
		})
	}
	assert.Equal(t, verdict.ToolMissing, AskServer(t.Context(), "call", "").Class)
	assert.Equal(t, verdict.Refused, AskServer(t.Context(), "call", "127.0.0.1:1").Class)
}
