// Package cgroup reads what the containers of a node and the node itself use, from the files of cgroup v2, as often as
// it is asked.
//
// The folders of pods are those of the kubelet, with either of its cgroup drivers:
//
//	kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/cri-containerd-<id>.scope
//	kubepods/burstable/pod<uid>/<id>
//
// A guaranteed pod has no folder of a class above it. A folder names a container by its ID alone: the UID of a static
// pod's folder is not that of its pod in the API. So a page has its readings without names, which somebody else adds.
package cgroup
