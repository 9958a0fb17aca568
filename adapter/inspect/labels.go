package inspect

import (
	"maps"
	"slices"
	"strings"
)

// labelText prints labels as kubectl does: sorted, "a=1,b=2".
func labelText(labels map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(key + "=" + labels[key])
	}
	return b.String()
}
