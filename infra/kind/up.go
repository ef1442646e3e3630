// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stockade-dev/stockade/infra/node"
	"github.com/stockade-dev/stockade/infra/progress"
)

// Up makes the cluster, or finds the healthy one that is there already. One
// that is broken, half made or made from other inputs is replaced.
//
// Errors: the process is not inside the seal, the seal is open, or a phase
// failed; the error has the phase's own words.
func Up(ctx context.Context, o Options, images node.Images, rep *progress.Reporter) error {
	o, err := o.orDefaults()
	if err != nil {
		return err
	}
	if err := o.startEngine(ctx); err != nil {
		return err
	}
	in, err := o.readInputs(images)
	if err != nil {
		return fmt.Errorf("making the cluster: %w", err)
	}

	id, err := settle(ctx, o.Timeouts.Settle, rep, func(ctx context.Context) (Identity, error) { return o.healthy(ctx, in.digest) })
	if err == nil {
		rep.Note("cluster %s is up already", o.Name)
		return o.refresh(ctx, id, images.Archives, rep)
	}
	if cause := context.Cause(ctx); cause != nil {
		// The caller gave up: that says nothing about the cluster, which must stay.
		return fmt.Errorf("looking at the cluster: %w", cause)
	}
	if id.UID != "" {
		rep.Note("replacing cluster %s: %v", o.Name, err)
	}
	if err := o.remove(ctx); err != nil {
		return fmt.Errorf("removing a broken cluster: %w", err)
	}
	if err := o.prepare(ctx, in, images, rep); err != nil {
		return err
	}
	if err := o.create(ctx, in, images, rep); err != nil {
		// The next call must not mistake half a cluster for a whole one. kind
		// removes what it could not finish, but the docker command that it uses for
		// that is ended by the terminal's Ctrl-C as well.
		return errors.Join(err, o.giveUp(ctx, rep))
	}
	return nil
}

// startEngine starts the engine in the seal and leads kind's docker commands to it.
func (o Options) startEngine(ctx context.Context) error {
	inside, err := o.Engine.Inside()
	if err != nil {
		return fmt.Errorf("making the cluster: %w", err)
	}
	if !inside {
		return errors.New("making the cluster: this process is not inside the seal; call Engine.Enter first")
	}
	if err := o.Engine.Start(ctx); err != nil {
		return err
	}
	return o.Engine.Setenv()
}

// inputs are what a cluster is made from. The images of our own programs are not
// among them: they come and go while it is up.
type inputs struct {
	config *clusterConfig
	files  Files
	system []*unstructured.Unstructured
	digest string
}

func (o Options) readInputs(images node.Images) (in inputs, err error) {
	host, err := DetectHost()
	if err != nil {
		return in, err
	}
	if in.system, err = systemObjects(host, o.CiliumDir); err != nil {
		return in, err
	}
	in.files = NodeFiles(host)
	in.config = Config(host, o.Name, images.NodeTag, images.Repository, o.filesDir())
	in.digest, err = digest(in.config, in.files, in.system)
	return in, err
}

// filesDir holds the files that are mounted into the nodes.
func (o Options) filesDir() string { return filepath.Join(o.Home, "run", "node-files") }

// prepare brings what the nodes need before they boot.
func (o Options) prepare(ctx context.Context, in inputs, images node.Images, rep *progress.Reporter) error {
	if err := o.Engine.EnsureNetwork(ctx); err != nil {
		return err
	}
	if err := o.loadNodeImage(ctx, images, rep); err != nil {
		return err
	}
	return writeFiles(o.filesDir(), in.files)
}

func writeFiles(dir string, files Files) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing files for the nodes: %w", err)
	}
	for path, content := range files {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), []byte(content), 0o644); err != nil {
			return fmt.Errorf("writing files for the nodes: %w", err)
		}
	}
	return nil
}
