package valuelist

import (
	"encoding/json"
	"io"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// writeJSON writes the same bytes as encoding/json does for the typed list.
func (l *List) writeJSON(version schema.GroupVersion, to io.Writer) error {
	item := l.items.jsonItem(version)
	head := appendMember([]byte{'{'}, `"kind":`, l.kind)
	head = appendMember(head, `"apiVersion":`, version.String())
	head = append(head, `"metadata":`...)
	head = closeObject(appendMember(append(head, '{'), `"resourceVersion":`, l.version))
	head = append(head, `,"items":[`...)
	return writeChunks(to, head, len(l.Points), func(dst []byte, i int) []byte {
		if i > 0 {
			dst = append(dst, ',')
		}
		return item(dst, &l.Points[i])
	}, "]}\n")
}

// appendMember appends a member of an object and a comma, unless the value is empty ("omitempty").
func appendMember(dst []byte, key, value string) []byte {
	if value == "" {
		return dst
	}
	dst = appendString(append(dst, key...), value)
	return append(dst, ',')
}

// closeObject replaces the comma of the last member by a brace, or appends the brace to an empty
// object.
func closeObject(dst []byte) []byte {
	if last := len(dst) - 1; dst[last] == ',' {
		dst[last] = '}'
		return dst
	}
	return append(dst, '}')
}

// appendString appends a string as encoding/json does. Strings with anything to escape are left to
// encoding/json.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s) // strings cannot fail
			return append(dst, text...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// appendTimeJSON is metav1.Time's MarshalJSON.
func appendTimeJSON(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	dst = t.UTC().AppendFormat(append(dst, '"'), time.RFC3339)
	return append(dst, '"')
}

// appendValueJSON is Quantity's MarshalJSON.
func appendValueJSON(dst []byte, n metric.Number) []byte {
	return append(appendQuantity(append(dst, '"'), n), '"')
}
