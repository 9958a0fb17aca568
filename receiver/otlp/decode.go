package otlp

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/pdata/pmetric"
)

// Encoding is how a request is written, and its answer.
type Encoding uint8

// The encodings.
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

// Decode reads a body that was weighed. What it returns does not borrow from it.
func Decode(body []byte, e Encoding) (all pmetric.Metrics, err error) {
	defer func() { // the library is not ours, and what it is handed is anybody's
		if fault := recover(); fault != nil {
			err = fmt.Errorf("the body cannot be decoded: %v", fault)
		}
	}()
	if e == JSON {
		if !json.Valid(body) { // the library stops at the end of the value, and does not look at what it skips
			return all, errNotJSON
		}
		return (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(body)
	}
	return (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(body)
}
