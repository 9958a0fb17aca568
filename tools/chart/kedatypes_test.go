package chart

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// kedaTypes are the definitions of KEDA 2.21.0, unchanged: config/crd/bases of its repository
// (Apache License 2.0). KEDA's Go types would bring 300 modules.
const kedaTypes = "testdata/keda"

// kedaObject reads an object of KEDA as an API server does that has KEDA's definitions: a field
// that the definition lacks is an error, and so is a value that it forbids.
func kedaObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object, faults := readKEDAObject(t, text)
	if len(faults) > 0 {
		t.Fatalf("%s\n%s", strings.Join(faults, "\n"), text)
	}
	return object
}

func readKEDAObject(t *testing.T, text string) (object *unstructured.Unstructured, faults []string) {
	t.Helper()
	object = &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(text), &object.Object); err != nil {
		return object, []string{err.Error()}
	}
	version, plural := kedaDefinition(t, object.GetKind())
	if version == nil || object.GetAPIVersion() != "keda.sh/"+version.Name {
		return object, []string{object.GetAPIVersion() + " has no kind " + object.GetKind()}
	}
	var internal apiextensions.JSONSchemaProps
	err := extensions.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &internal, nil)
	if err != nil {
		t.Fatal(plural, err)
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		t.Fatal(plural, err)
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		t.Fatal(plural, err)
	}
	for _, fault := range validation.ValidateCustomResource(nil, object.Object, validator) {
		faults = append(faults, fault.Error())
	}
	options := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(object.DeepCopy().Object, structural, true, options) {
		faults = append(faults, "unknown field "+path)
	}
	return object, faults
}

// kedaDefinition is the served version of a kind; nil: KEDA has no such kind.
func kedaDefinition(t *testing.T, kind string) (version *extensions.CustomResourceDefinitionVersion, plural string) {
	t.Helper()
	files, err := filepath.Glob(kedaTypes + "/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%d definitions of KEDA, %v", len(files), err)
	}
	for _, file := range files {
		var definition extensions.CustomResourceDefinition
		if err := yaml.UnmarshalStrict([]byte(read(t, file)), &definition); err != nil {
			t.Fatal(file, err)
		}
		served := slices.IndexFunc(definition.Spec.Versions, func(v extensions.CustomResourceDefinitionVersion) bool { return v.Served })
		if definition.Spec.Names.Kind == kind {
			return &definition.Spec.Versions[served], definition.Spec.Names.Plural
		}
	}
	return nil, ""
}

// ofKEDA reports whether a manifest is of a kind of KEDA.
func ofKEDA(manifest string) bool {
	return strings.Contains("\n"+manifest, "\napiVersion: keda.sh/")
}

func TestFaultsOfKEDAObjectsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"kind: ScaledObject\nspec: {scaleTargetRef: {name: a}, triggers: [{type: external, metadata: {metric: a}}]}":             "",
		"kind: ScaledObject\nspec: {scaleTargetRef: {name: a}, trigger: [], triggers: []}":                                       "unknown field spec.trigger",
		"kind: ScaledObject\nspec: {scaleTargetRef: {name: a}, triggers: [{type: external, metadata: {target: 10}}]}":            "must be of type string",
		"kind: ScaledObject\nspec: {scaleTargetRef: {name: a}, triggers: [{type: external, metadata: {}, metricType: Total}]}":   "",
		"kind: ScaledObject\nspec: {scaleTargetRef: {name: a}, advanced: {scalingModifiers: {metricType: Total}}, triggers: []}": "Unsupported value",
		"kind: ScaledObject\nspec: {triggers: []}": "spec.scaleTargetRef: Required value",
		"kind: ClusterTriggerAuthentication\nspec: {secretTargetRef: [{parameter: caCert, name: a, key: ca.crt, namespace: keda}]}": "unknown field spec.secretTargetRef[0].namespace",
		"kind: ClusterTriggerAuthentication\nspec: {secretTargetRef: [{parameter: caCert, name: a, key: ca.crt}]}":                  "",
		"kind: ScaledThing": "has no kind ScaledThing",
	} {
		_, faults := readKEDAObject(t, "apiVersion: keda.sh/v1alpha1\nmetadata: {name: a}\n"+text)
		if said := strings.Join(faults, "; "); want == "" && said != "" || !strings.Contains(said, want) {
			t.Errorf("%s\nfaults %q, want %q", text, said, want)
		}
	}
}
