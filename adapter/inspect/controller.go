package inspect

// The controller of HorizontalPodAutoscalers reads the metrics APIs with a service account of its own, as
// kubeadm configures it.
const (
	// ControllerAccount is that account, as "namespace:name".
	ControllerAccount = "kube-system:horizontal-pod-autoscaler"
	// ControllerUser is its name as a user.
	ControllerUser = "system:serviceaccount:" + ControllerAccount
)

// ControllerGroups are the groups of ControllerUser. The caller owns them.
func ControllerGroups() []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}
}
