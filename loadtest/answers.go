package loadtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// wholeQuantity parses a whole number in Kubernetes' notation, such as "12" or "3k". A fraction is
// an error.
func wholeQuantity(text string) (int64, error) {
	digits, factor := text, int64(1)
	if at := strings.IndexAny(text, "kMGTPE"); at >= 0 && at == len(text)-1 {
		digits = text[:at]
		for range strings.IndexByte("kMGTPE", text[at]) + 1 {
			factor *= 1000
		}
	}
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("quantity is %q; must be a whole number", text)
	}
	return v * factor, nil
}

// sumJSON returns the number of items in a MetricValueList in JSON, and the sum of all values.
func sumJSON(body []byte) (items int, sum int64, err error) {
	var list struct {
		Items []struct{ Value string }
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return 0, 0, err
	}
	for _, item := range list.Items {
		v, err := wholeQuantity(item.Value)
		if err != nil {
			return 0, 0, err
		}
		sum += v
	}
	return len(list.Items), sum, nil
}

// The envelope of Kubernetes' protobuf encoding, and the fields of the content that sumProtobuf
// reads: k8s.io/apimachinery pkg/runtime/generated.proto (Unknown), k8s.io/metrics
// pkg/apis/custom_metrics/v1beta2/generated.proto (MetricValueList, MetricValue),
// k8s.io/apimachinery pkg/api/resource/generated.proto (Quantity).
const (
	protobufMagic  = "k8s\x00"
	unknownRaw     = 2
	listItems      = 2
	itemValue      = 5
	quantityString = 1
)

// sumProtobuf returns the number of items in a MetricValueList in protobuf, and the sum of all
// values.
func sumProtobuf(body []byte) (items int, sum int64, err error) {
	if len(body) < len(protobufMagic) || string(body[:len(protobufMagic)]) != protobufMagic {
		return 0, 0, fmt.Errorf("%.20q does not begin as Kubernetes' protobuf", body)
	}
	err = eachField(body[len(protobufMagic):], unknownRaw, func(list []byte) error {
		return eachField(list, listItems, func(item []byte) error {
			items++
			return eachField(item, itemValue, func(quantity []byte) error {
				return eachField(quantity, quantityString, func(text []byte) error {
					v, err := wholeQuantity(string(text))
					sum += v
					return err
				})
			})
		})
	})
	return items, sum, err
}

var errProtobuf = errors.New("invalid protobuf")

// eachField calls f with every length-delimited field that has the given number.
func eachField(message []byte, number protowire.Number, f func([]byte) error) error {
	for len(message) > 0 {
		got, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errProtobuf
		}
		message = message[n:]
		if got != number || kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(got, kind, message); n < 0 {
				return errProtobuf
			}
			message = message[n:]
			continue
		}
		field, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return errProtobuf
		}
		if err := f(field); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}
