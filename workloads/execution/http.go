// SPDX-License-Identifier: Apache-2.0

package execution

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
)

// maxRequest bounds a request's body, in bytes: a source and its input.
const maxRequest = 1 << 20

// Handler serves the service over HTTP:
//
//	POST /v1/runs  a Program; answers a Result
//	GET  /healthz
//
// Status codes: 400 for a program that cannot be run, 429 when no more runs can
// be started, 502 when it is not known how a run ended. What the cluster said
// is for the log, not for the caller.
func (s *Service) Handler(log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("POST /v1/runs", func(w http.ResponseWriter, r *http.Request) {
		var p Program
		dec := json.NewDecoder(io.LimitReader(r.Body, maxRequest))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&p); err != nil {
			http.Error(w, "this is no program: language, source and stdin as a JSON object are needed", http.StatusBadRequest)
			return
		}
		p.Name = name()
		if _, err := p.argv(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		result, err := s.Run(r.Context(), p)
		switch {
		case errors.Is(err, ErrBusy):
			http.Error(w, ErrBusy.Error(), http.StatusTooManyRequests)
			return
		case err != nil:
			log.ErrorContext(r.Context(), "running a program", "run", p.Name, "error", err)
			http.Error(w, "it is not known how the run ended", http.StatusBadGateway)
			return
		}
		log.InfoContext(r.Context(), "ran a program", "run", p.Name, "status", result.Status, "uid", result.UID, "millis", result.Millis)
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(result); err != nil {
			log.DebugContext(r.Context(), "answering", "run", p.Name, "error", err)
		}
	})
	return mux
}

// name draws the name of a run.
func name() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return "run-" + hex.EncodeToString(b)
}
