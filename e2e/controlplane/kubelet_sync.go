package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const nodeName = "loopback"

func makeNode(ctx context.Context, client kubernetes.Interface) error {
	node, err := client.CoreV1().Nodes().Create(ctx, &core.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	node.Status.Addresses = []core.NodeAddress{{Type: core.NodeInternalIP, Address: nodeAddress.String()}}
	node.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue, LastTransitionTime: metav1.Now()}}
	_, err = client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

// sync takes the next step of a pod's life. The change brings the pod back into the queue.
func (k *Kubelet) sync(ctx context.Context, name cache.ObjectName) error {
	pod, err := k.pods.Pods(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	switch {
	case err != nil:
		return err
	case pod.DeletionTimestamp != nil:
		return k.letGo(ctx, pod)
	case pod.Spec.NodeName == "":
		return k.bind(ctx, pod)
	case pod.Spec.NodeName != nodeName || pod.Status.Phase != core.PodPending:
		return nil
	}
	if address, held := k.assign(pod); !held {
		return k.patchStatus(ctx, pod, runningStatus(pod, address))
	}
	return nil
}

func (k *Kubelet) assign(pod *core.Pod) (address netip.Addr, held bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	held = k.held[pod.Namespace]
	if pod.Spec.HostNetwork {
		k.addresses.given[pod.UID] = nodeAddress
	}
	return k.addresses.give(pod.Namespace, pod.UID), held
}

func (k *Kubelet) bind(ctx context.Context, pod *core.Pod) error {
	err := k.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &core.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
		Target:     core.ObjectReference{Kind: "Node", Name: nodeName},
	}, metav1.CreateOptions{})
	return unlessOvertaken(err)
}

// letGo ends the grace period, as a kubelet does when the containers have ended. Finalizers still
// delay the deletion.
func (k *Kubelet) letGo(ctx context.Context, pod *core.Pod) error {
	if pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0 {
		return nil // a finalizer delays the deletion
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	return unlessOvertaken(k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *options))
}

func (k *Kubelet) patchStatus(ctx context.Context, pod *core.Pod, status core.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return unlessOvertaken(err)
}

// unlessOvertaken ignores errors of a pod that has changed meanwhile: the watch delivers the
// change.
func unlessOvertaken(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// Finish reports that a pod's containers have ended; phase is Succeeded or Failed.
func (k *Kubelet) Finish(ctx context.Context, namespace, name string, phase core.PodPhase) error {
	patch := fmt.Sprintf(`{"status":{"phase":%q,"conditions":[{"type":"Ready","status":"False","reason":"PodCompleted"}]}}`, phase)
	_, err := k.client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}
