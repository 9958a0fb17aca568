package controlplane

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Kubelet replaces the scheduler and the pods' machine. It binds each pod to the node, assigns an
// address, reports the pod as running and ready, and ends a deleted pod at once.
type Kubelet struct {
	client  kubernetes.Interface
	pods    listers.PodLister
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	log     *log.Logger
	logFile *os.File
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	addresses *addresses
	held      map[string]bool // namespaces
}

// kubeletWorkers is the number of pods that are processed at the same time.
const kubeletWorkers = 4

// startKubelet returns when the node exists and pods are watched.
func startKubelet(ctx context.Context, client kubernetes.Interface, logPath string) (*Kubelet, error) {
	if err := makeNode(ctx, client); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	file, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	k := &Kubelet{
		client:    client,
		queue:     workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
		log:       log.New(file, "", log.LstdFlags|log.Lmicroseconds),
		logFile:   file,
		addresses: newAddresses(),
		held:      map[string]bool{},
	}
	return k, k.start(ctx)
}

func (k *Kubelet) start(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(k.client, 0)
	informer := factory.Core().V1().Pods().Informer()
	k.pods = factory.Core().V1().Pods().Lister()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    k.enqueue,
		UpdateFunc: func(_, pod any) { k.enqueue(pod) },
	}); err != nil {
		return err
	}
	run, cancel := context.WithCancel(context.Background()) // canceled by stop
	k.cancel = cancel
	factory.Start(run.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		k.stop()
		return fmt.Errorf("kubelet: pods are not watched yet: %w", ctx.Err())
	}
	for range kubeletWorkers {
		k.running.Go(func() { k.work(run) })
	}
	k.running.Go(func() { <-run.Done(); factory.Shutdown() })
	return nil
}

// stop returns when every goroutine has ended.
func (k *Kubelet) stop() {
	k.cancel()
	k.queue.ShutDown()
	k.running.Wait()
	_ = k.logFile.Close()
}

func (k *Kubelet) enqueue(pod any) {
	if name, err := cache.ObjectToName(pod); err == nil {
		k.queue.Add(name)
	}
}

func (k *Kubelet) work(ctx context.Context) {
	for {
		name, over := k.queue.Get()
		if over {
			return
		}
		if err := k.sync(ctx, name); err != nil {
			k.log.Printf("%s: %v", name, err)
			k.queue.AddRateLimited(name)
		} else {
			k.queue.Forget(name)
		}
		k.queue.Done(name)
	}
}

// Hold withholds the addresses of a namespace's new pods from the API until release is called. The
// pods already have addresses and may send from them (see Address).
func (k *Kubelet) Hold(namespace string) (release func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[namespace] = true
	return func() { k.release(namespace) }
}

func (k *Kubelet) release(namespace string) {
	k.mu.Lock()
	delete(k.held, namespace)
	k.mu.Unlock()
	pods, err := k.pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		k.log.Printf("release of %s: %v", namespace, err)
	}
	for _, pod := range pods {
		k.enqueue(pod)
	}
}

// Choose sets the addresses of a namespace's next pods, in order. To simulate address reuse, pass
// an address of an earlier pod.
func (k *Kubelet) Choose(namespace string, addresses ...netip.Addr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.addresses.chosen[namespace] = append(k.addresses.chosen[namespace], addresses...)
}

// Address returns a pod's address, even while Hold withholds it from the API. It waits until the
// pod has an address.
func (k *Kubelet) Address(t *testing.T, namespace, name string) netip.Addr {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if pod, err := k.pods.Pods(namespace).Get(name); err == nil {
			if address, ok := k.given(pod); ok {
				return address
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s pod %s/%s has no address", patience, namespace, name)
		}
	}
}

func (k *Kubelet) given(pod *core.Pod) (netip.Addr, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	address, ok := k.addresses.given[pod.UID]
	return address, ok
}
