package adapter

import (
	"reflect"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// listModels are the types of the lists, for the OpenAPI document.
var listModels = map[string]any{
	"metrics":     inspect.List[inspect.Metric]{},
	"objects":     inspect.List[inspect.Object]{},
	"senders":     inspect.List[inspect.Sender]{},
	"rejections":  inspect.List[inspect.Rejection]{},
	"groups":      inspect.List[inspect.PushedGroup]{},
	"limituses":   inspect.List[inspect.Limit]{},
	"autoscalers": inspect.List[inspect.Autoscaler]{},
	"rules":       inspect.List[inspect.Rule]{},
	"policies":    inspect.List[inspect.Policy]{},
}

// inspectDefinitions are the schemas of the documents and lists, derived from their Go types.
func inspectDefinitions(openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	all := map[string]openapicommon.OpenAPIDefinition{}
	define := func(model any) {
		all[openapiutil.GetCanonicalTypeName(model)] = openapicommon.OpenAPIDefinition{Schema: schemaOf(reflect.TypeOf(model), true)}
	}
	for _, model := range listModels {
		define(model)
	}
	define(inspect.MetricDetail{})
	define(inspect.Autoscaler{})
	return all
}

// schemaOf is the schema of a type as encoding/json writes it. A document has metadata beside its
// fields.
func schemaOf(t reflect.Type, document bool) (s spec.Schema) {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return *spec.DateTimeProperty()
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), document)
	case t.Kind() == reflect.Slice:
		items := schemaOf(t.Elem(), document)
		return *spec.ArrayProperty(&items)
	case t.Kind() == reflect.Map:
		values := schemaOf(t.Elem(), false)
		return *spec.MapProperty(&values)
	case t.Kind() == reflect.Struct:
		s.Type, s.Properties = spec.StringOrArray{"object"}, map[string]spec.Schema{}
		addFields(&s, t, document)
		return s
	case t.Kind() == reflect.Bool:
		return *spec.BooleanProperty()
	case t.Kind() == reflect.String:
		return *spec.StringProperty()
	case t.Kind() == reflect.Int32:
		return *spec.Int32Property()
	case t.Kind() == reflect.Float64:
		return *spec.Float64Property()
	}
	return *spec.Int64Property()
}

func addFields(s *spec.Schema, t reflect.Type, document bool) {
	for field := range fieldsOf(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		// Of a list, the items are the documents.
		s.Properties[name] = schemaOf(field.Type, document && name == "items")
	}
	if _, isDocument := reflect.New(t).Interface().(inspect.Document); document && isDocument {
		s.Properties["metadata"] = schemaOf(reflect.TypeFor[inspect.Meta](), false)
	}
}

// fieldsOf yields the fields of a struct, and those of embedded ones as its own.
func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if field := t.Field(i); !field.Anonymous {
				if !yield(field) {
					return
				}
			} else {
				for inner := range fieldsOf(field.Type) {
					if !yield(inner) {
						return
					}
				}
			}
		}
	}
}
