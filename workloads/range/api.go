// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/stockade-dev/stockade/workloads/range/rangeclient"
)

// newAPI serves the log to the suite. The socket's permissions are the access
// control: it is mode 0600, in a folder of the user's.
func newAPI(l *eventLog, caPEM []byte, health func() rangeclient.Health) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, health())
	})
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		var since uint64
		if s := q.Get("since"); s != "" {
			var err error
			if since, err = strconv.ParseUint(s, 10, 64); err != nil {
				http.Error(w, "since: a sequence number is needed", http.StatusBadRequest)
				return
			}
		}
		nonce := q.Get("nonce")
		if nonce != "" && (len(nonce) != nonceLen || !isHex(nonce)) {
			// A mistyped nonce must not read as "absent".
			http.Error(w, "nonce: 32 lower-case hex digits are needed", http.StatusBadRequest)
			return
		}
		writeJSON(w, l.query(since, nonce, rangeclient.MaxPage))
	})
	mux.HandleFunc("GET /ca.pem", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-pem-file")
		_, _ = w.Write(caPEM) // the client is gone if this fails
	})
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone if this fails
}
