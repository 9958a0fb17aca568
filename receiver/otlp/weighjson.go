package otlp

import "bytes"

// elementCost is what an element of an array, or a member of an object, costs at most: a number of a slice that has grown.
const elementCost = 16

// maxJSONDepth bounds brackets; a value of an attribute of an exemplar is 20 deep.
const maxJSONDepth = 64

// Data points are objects within ten brackets, and what is large in them, exemplars and attributes, within twelve.
const pointDepth, partDepth = 10, 12

// objectCost is what an object costs at most, by how deep it is.
func objectCost(depth int) int64 {
	switch {
	case depth <= pointDepth:
		return 256
	case depth <= partDepth:
		return 160
	}
	return 80
}

// weighJSON goes by brackets and commas alone: what they mean is the decoder's to find out.
func weighJSON(body []byte) (int64, error) {
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
		case 'n': // null, which is an empty object where there may be one
			total += objectCost(depth + 1)
		case '}', ']':
			depth--
		case ',':
			total += elementCost
		}
	}
	return total, nil
}

// stringEnd is how many bytes there are to the end of a string, its quote included.
func stringEnd(b []byte) int {
	for i := 0; i < len(b); i++ {
		at := bytes.IndexAny(b[i:], `"\`)
		if at < 0 {
			break
		}
		if i += at; b[i] == '"' {
			return i + 1
		}
		i++ // what is escaped
	}
	return len(b)
}
