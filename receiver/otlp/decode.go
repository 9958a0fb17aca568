package otlp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/pdata/pmetric"
	"google.golang.org/protobuf/encoding/protowire"
)

// Encoding is the encoding of a request and its answer.
type Encoding uint8

const (
	Protobuf Encoding = iota
	JSON
)

// ContentType is the encoding's media type.
func (e Encoding) ContentType() string {
	if e == JSON {
		return "application/json"
	}
	return "application/x-protobuf"
}

var errNotJSON = errors.New("the body is not JSON")

// Decode decodes a body whose decoded size was checked. The result does not borrow from the body.
func Decode(body []byte, e Encoding) (all pmetric.Metrics, err error) {
	defer func() { // the library may panic on hostile input
		if fault := recover(); fault != nil {
			err = fmt.Errorf("the body cannot be decoded: %v", fault)
		}
	}()
	if e == JSON {
		if !json.Valid(body) { // the library stops at the end of the value and does not check what it skips
			return all, errNotJSON
		}
		return (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(body)
	}
	return (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(body)
}

var (
	errDepth = errors.New("attributes are nested too deep")
	errWire  = errors.New("the body is not protobuf")
)

// maxDepth limits the nesting of attribute values: the decoder recurses for each level.
const maxDepth = 32

// DecodedSize is an upper bound of the memory of the decoded body, in bytes, without the body.
func DecodedSize(body []byte, e Encoding) (int64, error) {
	if e == JSON {
		return decodedSizeJSON(body)
	}
	w := sizeEstimate{total: int64(len(body))} // the strings
	if !w.message(body, &requestForm, 0) {
		return 0, w.err
	}
	return w.total, nil
}

// message describes a message's fields: the memory cost of each occurrence, and nested messages.
// The costs are those of pdata's types, with the spare capacity of slices.
type message [17]field

type field struct {
	cost   int64
	holds  *message
	packed int64 // cost of each packed element
	deeper bool  // one more level of attribute values
}

// The messages of metrics.proto, common.proto and resource.proto, as far as they take memory.
var (
	requestForm         = message{1: {cost: 144, holds: &resourceMetricsForm}}
	resourceMetricsForm = message{1: {holds: &resourceForm}, 2: {cost: 128, holds: &scopeMetricsForm}}
	resourceForm        = message{1: attributeField, 3: {cost: 96, holds: &entityForm}}
	entityForm          = message{3: {cost: 32}, 4: {cost: 32}}
	scopeMetricsForm    = message{1: {holds: &scopeForm}, 2: {cost: 112, holds: &metricForm}}
	scopeForm           = message{3: attributeField}
	metricForm          = message{
		5: {cost: 48, holds: &numbersForm}, 7: {cost: 48 + scopeCost, holds: &numbersForm},
		9: {cost: 48 + scopeCost, holds: &histogramsForm}, 10: {cost: 48 + scopeCost, holds: &exponentialsForm},
		11: {cost: 48 + scopeCost, holds: &summariesForm}, 12: attributeField,
	}
	numbersForm      = message{1: {cost: 112, holds: &numberForm}}
	histogramsForm   = message{1: {cost: 176, holds: &histogramForm}}
	exponentialsForm = message{1: {cost: 208, holds: &exponentialForm}}
	summariesForm    = message{1: {cost: 112, holds: &summaryForm}}
	numberForm       = message{4: {cost: 16}, 6: {cost: 16}, 5: exemplarField, 7: attributeField}
	histogramForm    = message{6: {cost: 16, packed: 2}, 7: {cost: 16, packed: 2}, 8: exemplarField, 9: attributeField}
	exponentialForm  = message{1: attributeField, 8: {holds: &denseForm}, 9: {holds: &denseForm}, 11: exemplarField}
	denseForm        = message{2: {cost: 16, packed: 16}}
	summaryForm      = message{6: {cost: 32}, 7: attributeField}

	exemplarField  = field{cost: 160, holds: &exemplarForm}
	exemplarForm   = message{3: {cost: 16}, 6: {cost: 16}, 7: attributeField}
	attributeField = field{cost: 80, holds: &attributeForm}
	attributeForm  message
	valueForm      message
)

func init() { // recursive messages
	attributeForm = message{2: {holds: &valueForm}}
	valueForm = message{
		1: {cost: 24}, 2: {cost: 24}, 3: {cost: 24}, 4: {cost: 24}, 7: {cost: 32}, 8: {cost: 24},
		5: {cost: 32, holds: &message{1: {cost: 32, holds: &valueForm}}, deeper: true},
		6: {cost: 32, holds: &message{1: {cost: 80, holds: &attributeForm}}, deeper: true},
	}
}

// sizeEstimate adds up the costs of messages.
type sizeEstimate struct {
	total int64
	err   error
}

func (w *sizeEstimate) message(b []byte, m *message, depth int) bool {
	for len(b) > 0 {
		number, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return w.fail(errWire)
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, wire, b); n < 0 {
			return w.fail(errWire)
		}
		if int(number) < len(m) && !w.field(b[:n], wire, &m[number], depth) {
			return false
		}
		b = b[n:]
	}
	return true
}

func (w *sizeEstimate) field(b []byte, wire protowire.Type, f *field, depth int) bool {
	if f.deeper {
		depth++
	}
	if depth > maxDepth {
		return w.fail(errDepth)
	}
	if wire != protowire.BytesType {
		w.total += f.cost
		return true
	}
	inner, _ := protowire.ConsumeBytes(b)
	if f.packed > 0 {
		w.total += f.packed * int64(len(inner))
		return true
	}
	w.total += f.cost
	return f.holds == nil || w.message(inner, f.holds, depth)
}

func (w *sizeEstimate) fail(err error) bool {
	w.err = err
	return false
}

// elementCost is the maximum cost of an array element or object member: a number in a slice that
// has grown.
const elementCost = 16

// maxJSONDepth limits brackets; an attribute value of an exemplar is 20 deep.
const maxJSONDepth = 64

// Data points are objects within ten brackets; their large parts, exemplars and attributes, are
// within twelve.
const pointDepth, partDepth = 10, 12

// objectCost is the maximum cost of an object, by its depth.
func objectCost(depth int) int64 {
	switch {
	case depth <= pointDepth:
		return 256
	case depth <= partDepth:
		return 160
	}
	return 80
}

// decodedSizeJSON counts brackets and commas only; the decoder checks their meaning.
func decodedSizeJSON(body []byte) (int64, error) {
	total, depth := int64(len(body)), 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			i += stringEnd(body[i+1:])
		case '{', '[':
			if depth++; depth > maxJSONDepth {
				return 0, errDepth
			}
			total += objectCost(depth)
		case 'n': // null, which can be an empty object
			total += objectCost(depth + 1)
		case '}', ']':
			depth--
		case ',':
			total += elementCost
		}
	}
	return total, nil
}

// stringEnd is the number of bytes to the end of a string, including the quote.
func stringEnd(b []byte) int {
	for i := 0; i < len(b); i++ {
		at := bytes.IndexAny(b[i:], `"\`)
		if at < 0 {
			break
		}
		if i += at; b[i] == '"' {
			return i + 1
		}
		i++ // the escaped character
	}
	return len(b)
}
