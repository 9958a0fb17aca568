package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Apply applies manifests (YAML, several documents) as "kubectl apply --server-side" does and
// returns the objects as the API server has them. Objects without a namespace get the given one. The rights of bindings
// are valid when it returns.
func (c *ControlPlane) Apply(t *testing.T, namespace string, manifests ...string) []*unstructured.Unstructured {
	t.Helper()
	var applied []*unstructured.Unstructured
	for _, manifest := range manifests {
		objects, err := decode(manifest)
		if err != nil {
			t.Fatalf("%v in\n%s", err, manifest)
		}
		for _, object := range objects {
			got, err := c.apply(t.Context(), namespace, object)
			if err != nil {
				t.Fatalf("apply %s %s: %v", object.GetKind(), object.GetName(), err)
			}
			applied = append(applied, got)
		}
	}
	c.awaitRights(t, applied)
	return applied
}

func decode(manifest string) (objects []*unstructured.Unstructured, err error) {
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 { // skips a document that has only comments
			objects = append(objects, object)
		}
	}
}

func (c *ControlPlane) apply(ctx context.Context, namespace string, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	mapping, err := c.mapping(object)
	if err != nil {
		return nil, err
	}
	options := metav1.ApplyOptions{FieldManager: "e2e", Force: true}
	resource := c.Dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return resource.Apply(ctx, object.GetName(), object, options)
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(namespace)
	}
	return resource.Namespace(object.GetNamespace()).Apply(ctx, object.GetName(), object, options)
}

// mapping repeats discovery if a kind is unknown: the kind may be new.
func (c *ControlPlane) mapping(object *unstructured.Unstructured) (*meta.RESTMapping, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		c.mapper.Reset()
		mapping, err = c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("kind %s: %w", kind, err)
	}
	return mapping, nil
}
