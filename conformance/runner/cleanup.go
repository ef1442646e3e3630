// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/stockade-dev/stockade/infra/progress"
)

// damagedSuffix is added to the name of a ledger that cannot be read.
const damagedSuffix = ".damaged"

// RunLabel is on every object that a run creates; its value is the run's id.
const RunLabel = "stockade.dev/run"

// Owned is an object that carries [RunLabel].
type Owned struct {
	Ref
	Run string
}

// Remover is what cleanup needs of a cluster.
type Remover interface {
	// Cluster returns the UID of the kube-system namespace.
	Cluster(ctx context.Context) (string, error)
	// Labelled lists the objects that runs created.
	Labelled(ctx context.Context) ([]Owned, error)
	// Remove deletes an object that the run created and waits until it is
	// gone. It must leave alone an object of the same name that does not carry
	// the run's label, and report no error for one that does not exist.
	Remove(ctx context.Context, run string, ref Ref) error
}

// Cleanup removes what dead runs left behind: what their ledgers list, and
// whatever else carries the label of a run that does not live. It returns what
// could not be removed. Ledgers of other clusters are left alone.
//
// Of a damaged ledger nobody knows what else it listed: it counts as residue
// once, and is set aside under another name for a person to read.
//
// Removing takes seconds, of a namespace a minute: rep tells of each.
func Cleanup(ctx context.Context, dir string, r Remover, rep *progress.Reporter) (residue []string, err error) {
	cluster, err := r.Cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("cleaning up: %w", err)
	}
	// First what there is, and then who lives: an object is in a ledger before it
	// is in the cluster. The other way round, a run that begins in between would
	// look dead, and lose what it has just made.
	owned, err := r.Labelled(ctx)
	if err != nil {
		return nil, fmt.Errorf("cleaning up: %w", err)
	}
	gone, live, err := scan(dir)
	defer func() {
		for _, d := range gone {
			_ = d.f.Close()
		}
	}()
	if err != nil {
		return nil, fmt.Errorf("cleaning up: %w", err)
	}
	s := sweep{r: r, rep: rep}
	done := map[Ref]bool{}
	var errs []error
	for _, d := range gone {
		if d.Cluster != "" && d.Cluster != cluster {
			continue
		}
		for _, ref := range d.Left {
			done[ref] = true
		}
		errs = append(errs, s.ledger(ctx, d))
	}
	for _, o := range owned {
		if !live[o.Run] && !done[o.Ref] {
			s.remove(ctx, o.Run, o.Ref)
		}
	}
	slices.Sort(s.residue)
	return s.residue, errors.Join(errs...)
}

// sweep removes objects and keeps what could not be removed.
type sweep struct {
	r       Remover
	rep     *progress.Reporter
	residue []string
}

// remove reports whether the object is gone.
func (s *sweep) remove(ctx context.Context, run string, ref Ref) bool {
	done := s.rep.Step(fmt.Sprintf("removing %s, which the dead run %s left", ref, run))
	err := s.r.Remove(ctx, run, ref)
	done("", err)
	if err != nil {
		s.residue = append(s.residue, fmt.Sprintf("%s of run %s: %v", ref, run, err))
	}
	return err == nil
}

// ledger removes what a dead run's ledger lists, and then the ledger itself. One
// that is damaged is set aside, and one of which something is left stays.
func (s *sweep) ledger(ctx context.Context, d dead) error {
	gone := true
	for _, ref := range d.Left {
		gone = s.remove(ctx, d.Run, ref) && gone
	}
	if d.err != nil {
		s.residue = append(s.residue, fmt.Sprintf("the ledger of run %s: %v; it is kept as %s, and what it named may be left", d.Run, d.err, d.path+damagedSuffix))
		if err := os.Rename(d.path, d.path+damagedSuffix); err != nil {
			return fmt.Errorf("setting a damaged ledger aside: %w", err)
		}
		return nil
	}
	if !gone {
		return nil
	}
	if err := os.Remove(d.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing a ledger: %w", err)
	}
	return nil
}

// Forget removes the ledgers of dead runs whose cluster is gone, and everything with
// it that they list. The caller must know that all of them are of that cluster.
func Forget(dir string) error {
	gone, _, err := scan(dir)
	for _, d := range gone {
		err = errors.Join(err, os.Remove(d.path), d.f.Close())
	}
	if err != nil {
		return fmt.Errorf("removing the ledgers of a cluster that is gone: %w", err)
	}
	return nil
}
