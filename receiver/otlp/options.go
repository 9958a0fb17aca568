package otlp

// Options configure a Reader.
type Options struct {
	// MaxLabels limits the labels of a sample, MaxLabelBytes each key and each value.
	MaxLabels, MaxLabelBytes int
	// Attributes are resource attributes that become labels, besides those that name the object.
	Attributes []string
}
