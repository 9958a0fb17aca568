package cluster

import (
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// index holds the objects of one kind in their short form T. One goroutine writes.
type index[T any] interface {
	put(T)
	drop(namespace, name string)
	replace([]T)
}

// reflectorStore is the store of a Reflector. It converts each object to its short form and puts
// that into an index.
type reflectorStore[T any] struct {
	index   index[T]
	convert func(object any) (T, bool)
	// listed: the whole list was read once.
	listed atomic.Bool
}

var _ cache.TransformingStore = (*reflectorStore[any])(nil)

// Transformer implements cache.TransformingStore. It converts a streamed first list object by
// object.
func (m *reflectorStore[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return m.converted(object) }
}

func (m *reflectorStore[T]) converted(object any) (T, error) {
	if already, ok := object.(T); ok {
		return already, nil
	}
	short, ok := m.convert(object)
	if !ok {
		return short, fmt.Errorf("cannot convert a %T to a %T", object, short)
	}
	return short, nil
}

// Add implements cache.ReflectorStore.
func (m *reflectorStore[T]) Add(object any) error {
	short, err := m.converted(object)
	if err == nil {
		m.index.put(short)
	}
	return err
}

// Update implements cache.ReflectorStore.
func (m *reflectorStore[T]) Update(object any) error { return m.Add(object) }

// Delete implements cache.ReflectorStore.
func (m *reflectorStore[T]) Delete(object any) error {
	of, err := meta.Accessor(object)
	if err == nil {
		m.index.drop(of.GetNamespace(), of.GetName())
	}
	return err
}

// Replace implements cache.ReflectorStore. It skips objects that cannot be converted.
func (m *reflectorStore[T]) Replace(objects []any, _ string) error {
	all := make([]T, 0, len(objects))
	for i, object := range objects {
		if short, err := m.converted(object); err == nil {
			all = append(all, short)
		}
		objects[i] = nil
	}
	m.index.replace(all)
	m.listed.Store(true)
	return nil
}

// Resync implements cache.ReflectorStore. It does nothing.
func (m *reflectorStore[T]) Resync() error { return nil }
