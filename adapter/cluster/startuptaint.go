package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/internal/ratelog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// AgentNotReady is the key of the taint that keeps pods off a node until its agent is connected.
const AgentNotReady = "sluice.dev/agent-not-ready"

// Rate limit of requests about nodes, which have one of their own: after a restart all agents come back. A
// failure is tried again after retryTaint.
const (
	nodesPerSecond, nodesAtOnce = 20, 40
	retryTaint                  = 2 * time.Second
)

// StartupTaints removes the taint AgentNotReady. Several replicas may do so at once.
type StartupTaints struct {
	nodes  kubernetes.Interface
	retry  time.Duration
	log    *slog.Logger
	faults ratelog.Limiter
	came   chan struct{}

	mu sync.Mutex // guards the fields below
	// waiting are names of nodes, the next one last: a new node does not wait for those that a restart brings back.
	waiting []string
	waits   map[string]bool
}

// NewStartupTaints makes a client. It sends no request.
func NewStartupTaints(client *Client, log *slog.Logger) (*StartupTaints, error) {
	config := client.REST()
	config.QPS, config.Burst = nodesPerSecond, nodesAtOnce
	own, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of nodes: %w", err)
	}
	return &StartupTaints{nodes: own, retry: retryTaint, log: log, came: make(chan struct{}, 1), waits: map[string]bool{}}, nil
}

// AgentCame has Run look at a node, whose agent is connected.
func (s *StartupTaints) AgentCame(node string) {
	s.mu.Lock()
	if !s.waits[node] {
		s.waits[node], s.waiting = true, append(s.waiting, node)
	}
	s.mu.Unlock()
	select {
	case s.came <- struct{}{}:
	default:
	}
}

// Run removes taints until ctx ends.
func (s *StartupTaints) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		node := s.next()
		if node == "" {
			select {
			case <-ctx.Done():
			case <-s.came:
			}
			continue
		}
		err := s.remove(ctx, node)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if suppressed, ok := s.faults.Allow(); ok {
			s.log.Error("cannot remove the taint "+AgentNotReady, "node", node, "error", err, "suppressed", suppressed)
		}
		s.last(node)
		select {
		case <-ctx.Done():
		case <-time.After(s.retry):
		}
	}
	return nil
}

// next takes a node; empty: none waits.
func (s *StartupTaints) next() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return ""
	}
	last := len(s.waiting) - 1
	node := s.waiting[last]
	s.waiting = s.waiting[:last]
	delete(s.waits, node)
	return node
}

// last puts a node behind all others.
func (s *StartupTaints) last(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waits[node] {
		s.waits[node], s.waiting = true, slices.Insert(s.waiting, 0, node)
	}
}

// remove removes the taint of each effect. The patch applies to the node and the place that were read.
func (s *StartupTaints) remove(ctx context.Context, name string) error {
	for {
		node, err := s.nodes.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		i := slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == AgentNotReady })
		if i < 0 {
			return nil
		}
		place := fmt.Sprintf("/spec/taints/%d", i)
		patch, err := json.Marshal([]jsonPatch{{"test", "/metadata/uid", node.UID}, {"test", place + "/key", AgentNotReady}, {"remove", place, nil}})
		if err != nil {
			return err
		}
		if _, err := s.nodes.CoreV1().Nodes().Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
		s.log.Info("removed the taint "+AgentNotReady, "node", name, "effect", node.Spec.Taints[i].Effect)
	}
}
