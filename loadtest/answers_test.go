package loadtest

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func TestWholeQuantity(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "12": 12, "-3": -3, "3k": 3_000, "2M": 2_000_000, "1E": 1e18} {
		if got, err := wholeQuantity(text); err != nil || got != want {
			t.Errorf("%q is read as %d, %v: want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "1500m", "1.5", "3Ki", "k3"} {
		if got, err := wholeQuantity(text); err == nil {
			t.Errorf("%q is read as %d: want an error", text, got)
		}
	}
}

func TestSumJSON(t *testing.T) {
	items, sum, err := sumJSON([]byte(`{"items":[{"value":"2"},{"value":"1k"}]}`))
	if items != 2 || sum != 1002 || err != nil {
		t.Errorf("%d items, sum %d, %v", items, sum, err)
	}
}

// message makes a protobuf message of one field that holds bytes.
func message(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

func TestSumProtobuf(t *testing.T) {
	item := func(value string) []byte {
		skipped := protowire.AppendVarint(protowire.AppendTag(nil, 4, protowire.VarintType), 60) // windowSeconds
		return message(listItems, append(skipped, message(itemValue, message(quantityString, []byte(value)))...))
	}
	list := append(append(message(1, []byte("metadata")), item("2")...), item("3k")...)
	body := append([]byte(protobufMagic), append(message(1, []byte("typeMeta")), message(unknownRaw, list)...)...)
	if items, sum, err := sumProtobuf(body); items != 2 || sum != 3002 || err != nil {
		t.Errorf("%d items, sum %d, %v: want 2 and 3002", items, sum, err)
	}
	for n := range body[:len(body)-1] {
		if items, _, err := sumProtobuf(body[:n]); err == nil && items == 2 {
			t.Fatalf("the first %d bytes are read as all of it", n)
		}
	}
}
