// SPDX-License-Identifier: Apache-2.0

package execution

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Exec runs a program in a Pod's only container and returns its exit code. An
// error means that it is not known how the program ended.
type Exec func(ctx context.Context, pod *corev1.Pod, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error)

// Timeouts names the waits of a run; zero fields take their default.
type Timeouts struct {
	// Start is how long a Pod may take until its container runs; 60 s.
	Start time.Duration
	// Run is how long the program may run; 10 s.
	Run time.Duration
	// Remove bounds the removal of the Pod, also after the caller left; 10 s.
	Remove time.Duration
}

// Options of a service.
type Options struct {
	Client    kubernetes.Interface
	Exec      Exec
	Namespace string
	Template  *Template
	// MaxOutput bounds standard output and standard error each, in bytes; 0
	// means 64 KiB.
	MaxOutput int
	Timeouts  Timeouts
}

// Service runs programs. It is safe for concurrent use.
type Service struct {
	o Options

	mu sync.Mutex
	// next is where the search for a free user id begins; given are those that
	// were handed out and may not be seen in the cluster yet, by Pod.
	next  int64
	given map[string]int64
}

// New returns a service.
func New(o Options) (*Service, error) {
	if o.Client == nil || o.Namespace == "" || o.Template == nil {
		return nil, errors.New("making the execution service: a client, a namespace and a template are needed")
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.Timeouts.Start, time.Minute)
	def(&o.Timeouts.Run, 10*time.Second)
	def(&o.Timeouts.Remove, 10*time.Second)
	if o.MaxOutput <= 0 {
		o.MaxOutput = 64 << 10
	}
	s := &Service{o: o, given: map[string]int64{}}
	if t := o.Template; t.last > 0 {
		// Not always the same ids again after each restart.
		s.next = t.first + rand.Int64N(t.last-t.first+1) //nolint:gosec // no secret
	}
	return s, nil
}

// ErrBusy means that no more runs can be started now: the quota is used up, or
// every user id is taken.
var ErrBusy = errors.New("no more runs can be started now")

// Start creates the Pod of a run under a name, with a user id that no other Pod
// of the namespace has. It does not wait for it.
func (s *Service) Start(ctx context.Context, name string, labels map[string]string) (*corev1.Pod, error) {
	uid, err := s.reserve(ctx, name)
	if err != nil {
		return nil, err
	}
	p, err := s.o.Client.CoreV1().Pods(s.o.Namespace).Create(ctx, s.o.Template.Pod(s.o.Namespace, name, uid, labels), metav1.CreateOptions{})
	if err != nil {
		s.release(name)
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota") {
			return nil, fmt.Errorf("%w: %w", ErrBusy, err)
		}
		return nil, fmt.Errorf("creating the Pod of run %s: %w", name, err)
	}
	return p, nil
}

// reserve picks a user id for a Pod.
func (s *Service) reserve(ctx context.Context, name string) (int64, error) {
	t := s.o.Template
	if t.last == 0 {
		return 0, nil
	}
	// Held over the request: of two at once, the second must see the first's.
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := s.o.Client.CoreV1().Pods(s.o.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("listing the user ids in use: %w", err)
	}
	used := map[int64]bool{}
	for i := range list.Items {
		used[uidOf(&list.Items[i])] = true
	}
	for _, uid := range s.given {
		used[uid] = true
	}
	span := t.last - t.first + 1
	for range span {
		uid := s.next
		// Onwards and not back to the last one that became free: its files may
		// still be somewhere.
		s.next = t.first + (s.next-t.first+1)%span
		if !used[uid] {
			s.given[name] = uid
			return uid, nil
		}
	}
	return 0, fmt.Errorf("%w: all %d user ids are taken", ErrBusy, span)
}

func (s *Service) release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.given, name)
}

// Await waits until the container of a run's Pod runs.
func (s *Service) Await(ctx context.Context, name string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeouts.Start)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		p, err := s.o.Client.CoreV1().Pods(s.o.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("waiting for the Pod of run %s: %w", name, err)
		case err != nil && ctx.Err() == nil:
			// A busy API server may refuse for a while.
		case err == nil && p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Running != nil:
			return p, nil
		case err == nil && (p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded):
			return nil, fmt.Errorf("waiting for the Pod of run %s: it ended before the run began: %s %s", name, p.Status.Reason, p.Status.Message)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the Pod of run %s: %w", name, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

const pollEvery = 100 * time.Millisecond

// Remove deletes the Pod of a run, at once and with all that runs in it. One
// that is gone already is no error.
func (s *Service) Remove(ctx context.Context, name string) error {
	// Also when the caller has left: what runs there is a stranger's.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeouts.Remove)
	defer cancel()
	defer s.release(name)
	grace := int64(1) // seconds; 0 would not wait for the kubelet
	err := s.o.Client.CoreV1().Pods(s.o.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the Pod of run %s: %w", name, err)
	}
	return nil
}

// Run runs a program in a Pod of its own and tells how it ended. An error means
// that it could not be told: whatever the program does is a Result.
func (s *Service) Run(ctx context.Context, p Program) (r Result, err error) {
	argv, err := p.argv()
	if err != nil {
		return Result{}, err
	}
	limits, err := s.o.Template.Limits(p.Language)
	if err != nil {
		return Result{}, err
	}
	if s.o.Exec == nil {
		return Result{}, errors.New("running a program: the service has no way into its Pods")
	}
	if _, err := s.Start(ctx, p.Name, p.Labels); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, s.Remove(ctx, p.Name)) }()
	pod, err := s.Await(ctx, p.Name)
	if err != nil {
		return Result{}, err
	}
	out, errs := &head{max: s.o.MaxOutput}, &head{max: s.o.MaxOutput}
	rctx, cancel := context.WithTimeout(ctx, s.o.Timeouts.Run)
	defer cancel()
	began := time.Now()
	code, execErr := s.o.Exec(rctx, pod, Command(limits, argv), strings.NewReader(p.Stdin), out, errs)
	e := ending{
		language: p.Language, code: code, stderr: errs.end(), cut: out.over || errs.over,
		late: rctx.Err() != nil && ctx.Err() == nil,
	}
	if execErr != nil && !e.late {
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		// An exec that is lost may have lost its sandbox.
		if e.killed, e.oom = s.fate(ctx, p.Name); !e.killed {
			return Result{}, fmt.Errorf("running the program of %s: %w", p.Name, execErr)
		}
	}
	return Result{
		Status: e.status(), ExitCode: e.exit(), Stdout: out.String(), Stderr: errs.String(),
		UID: uidOf(pod), Millis: time.Since(began).Milliseconds(),
	}, nil
}

// fate tells whether a run's container was ended from outside.
func (s *Service) fate(ctx context.Context, name string) (killed, oom bool) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeouts.Remove)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		p, err := s.o.Client.CoreV1().Pods(s.o.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(p.Status.ContainerStatuses) > 0 {
			if t := p.Status.ContainerStatuses[0].State.Terminated; t != nil {
				return true, t.Reason == "OOMKilled"
			}
		}
		select {
		case <-ctx.Done():
			return false, false
		case <-tick.C:
		}
	}
}

// head keeps the first bytes of a stream, and the last few, and swallows the
// rest: the last line says how a program ended, however much it said before.
type head struct {
	mu   sync.Mutex
	max  int
	buf  bytes.Buffer
	last []byte
	over bool
}

const maxLast = 1 << 10

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	take := p
	if left := h.max - h.buf.Len(); len(take) > left {
		take, h.over = take[:left], true
	}
	h.buf.Write(take)
	h.last = append(h.last, p[max(0, len(p)-maxLast):]...)
	h.last = slices.Clone(h.last[max(0, len(h.last)-maxLast):])
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.String()
}

func (h *head) end() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.last)
}
