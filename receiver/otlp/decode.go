package otlp

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/pdata/pmetric"
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
