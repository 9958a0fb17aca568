package lookup

import "testing"

// A record is found by all of its key: two keys of one hash are two records.
func TestKeysOfOneHash(t *testing.T) {
	a := NewAliases(1 << 20)
	key := Key{hash: 7 << 32, name: []byte("n"), tags: []byte("a:b"), mode: 1, mask: 0xffff, sender: 1}
	others := [4]Key{key, key, key, key}
	others[0].name, others[1].tags, others[2].mode, others[3].sender = []byte("m"), []byte("a:c"), 2, 2
	if before, ok := a.Set(&key, 1); before != 0 || !ok {
		t.Fatalf("set: %d before, %t", before, ok)
	}
	for i := range others {
		if a.Find(&others[i]) != nil {
			t.Errorf("%+v finds the record of %+v", others[i], key)
		}
	}
	if a.Find(&key) == nil {
		t.Error("the record is not found")
	}
}
