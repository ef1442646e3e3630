// SPDX-License-Identifier: Apache-2.0

package overlays

// The overlays with what attacks on kode-gopher are compared with: a Pod beside
// the server that its policies take for it, in the namespace of each deployment.
const (
	KodeGopherControls       = "base/kode-gopher-controls"
	KodeGopherSharedControls = "base/kode-gopher-shared-controls"
)
