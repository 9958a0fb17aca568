package controlplane

import (
	"context"
	"strings"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// awaitRights waits until the API server's authorizer, which follows bindings by a watch, knows those among the objects.
func (c *ControlPlane) awaitRights(t *testing.T, applied []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range applied {
		if object.GroupVersionKind().Group != rbac.GroupName || object.GetKind() != "RoleBinding" && object.GetKind() != "ClusterRoleBinding" {
			continue
		}
		var binding rbac.RoleBinding // has the fields of both
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding))
		for _, review := range c.reviews(t, &binding) {
			c.awaitAllowed(t, review)
		}
	}
}

// reviews are questions for one right of each rule of a binding's role, for each subject. A role may come later than its binding.
func (c *ControlPlane) reviews(t *testing.T, binding *rbac.RoleBinding) (all []*authorization.SubjectAccessReview) {
	t.Helper()
	rules, err := c.rules(t.Context(), binding)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	for i := range rules {
		for _, subject := range binding.Subjects {
			review := reviewOf(&rules[i], binding.Namespace)
			switch subject.Kind {
			case rbac.UserKind:
				review.Spec.User = subject.Name
			case rbac.GroupKind:
				review.Spec.Groups = []string{subject.Name}
			case rbac.ServiceAccountKind:
				review.Spec.User = "system:serviceaccount:" + subject.Namespace + ":" + subject.Name
			}
			all = append(all, review)
		}
	}
	return all
}

func (c *ControlPlane) rules(ctx context.Context, binding *rbac.RoleBinding) ([]rbac.PolicyRule, error) {
	roles := c.Kubernetes.RbacV1()
	if binding.RoleRef.Kind == "ClusterRole" {
		role, err := roles.ClusterRoles().Get(ctx, binding.RoleRef.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	}
	role, err := roles.Roles(binding.Namespace).Get(ctx, binding.RoleRef.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return role.Rules, nil
}

// reviewOf asks for the first right of a rule, in a namespace (empty: in all).
func reviewOf(rule *rbac.PolicyRule, namespace string) *authorization.SubjectAccessReview {
	review := new(authorization.SubjectAccessReview)
	if len(rule.NonResourceURLs) > 0 {
		review.Spec.NonResourceAttributes = &authorization.NonResourceAttributes{Verb: rule.Verbs[0], Path: rule.NonResourceURLs[0]}
		return review
	}
	asked := &authorization.ResourceAttributes{Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0]}
	asked.Resource, asked.Subresource, _ = strings.Cut(rule.Resources[0], "/")
	if len(rule.ResourceNames) > 0 {
		asked.Name = rule.ResourceNames[0]
	}
	review.Spec.ResourceAttributes = asked
	return review
}

func (c *ControlPlane) awaitAllowed(t *testing.T, review *authorization.SubjectAccessReview) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		got, err := c.Kubernetes.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		must(t, err)
		if got.Status.Allowed {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s the API server does not allow %+v: %+v", patience, review.Spec, got.Status)
		}
	}
}
