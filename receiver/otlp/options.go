package otlp

// Options say how a Reader reads.
type Options struct {
	// MaxLabels bounds the labels of a sample, MaxLabelBytes each key and each value.
	MaxLabels, MaxLabelBytes int
	// Attributes are the resource attributes that become labels, beside those that say which object it is about.
	Attributes []string
}
