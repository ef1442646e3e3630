// SPDX-License-Identifier: Apache-2.0

package overlays

// The overlays of kode-gopher, each in a namespace of its own with the same
// names in it.
const (
	KodeGopher       = "base/kode-gopher"        // for one person
	KodeGopherShared = "base/kode-gopher-shared" // for several users

	KodeGopherNamespace       = "kode-gopher"
	KodeGopherSharedNamespace = "kode-gopher-shared"

	// KodeGopherName is what the template, the pool, and the server's Deployment
	// and Service are called.
	KodeGopherName = "kode-gopher"
	// KodeGopherSandboxApp is the label "app" of the sandboxes, which their
	// allow-list selects.
	KodeGopherSandboxApp = "kode-gopher-sandbox"
	// KodeGopherClients is the label by which a namespace's Pods may call the
	// server, with the value "true".
	KodeGopherClients = "kode-gopher.stockade.dev/clients"
)
