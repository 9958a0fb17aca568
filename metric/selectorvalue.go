package metric

// MaxSelectorValue is the length in bytes of the longest label value in Kubernetes.
const MaxSelectorValue = 63

// SelectorValue is the form in which a label's value is written in a Kubernetes selector. Each byte
// that a Kubernetes label value must not have becomes "_"; leading and trailing bytes that are
// neither letter nor digit are dropped. A value that Kubernetes allows stays as it is.
func SelectorValue(value string) string {
	if legalSelectorValue(value) {
		return value
	}
	start := 0
	for start < len(value) && !alphanumeric(value[start]) {
		start++
	}
	out := []byte(value[start:min(len(value), start+MaxSelectorValue)])
	for i, c := range out {
		if !inSelectorValue(c) {
			out[i] = '_'
		}
	}
	for len(out) > 0 && !alphanumeric(out[len(out)-1]) {
		out = out[:len(out)-1]
	}
	return string(out)
}

func legalSelectorValue(value string) bool {
	if len(value) > MaxSelectorValue {
		return false
	}
	for i := range len(value) {
		if !inSelectorValue(value[i]) {
			return false
		}
	}
	return value == "" || (alphanumeric(value[0]) && alphanumeric(value[len(value)-1]))
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func inSelectorValue(c byte) bool { return alphanumeric(c) || c == '-' || c == '_' || c == '.' }

// Selected returns the value of the label that a selector's key selects. A key that selector syntax
// cannot express is found by its SelectorValue, unless another key has that name.
func (l Labels) Selected(key string) (string, bool) {
	if v, ok := l.Get(key); ok {
		return v, true
	}
	for k, v := range l.All() {
		if k != key && SelectorValue(k) == key {
			return v, true
		}
	}
	return "", false
}

// Selectable is Selected, in the form in which a selector has the value.
func (l Labels) Selectable(key string) (string, bool) {
	v, ok := l.Selected(key)
	return SelectorValue(v), ok
}
