package cluster

import (
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// filed is where objects of one kind are kept in the short form T. It is written by one goroutine.
type index[T any] interface {
	put(T)
	drop(namespace, name string)
	replace([]T)
}

// mirror is the store of a Reflector: it takes each object to its short form before anything keeps it, and files that.
type reflectorStore[T any] struct {
	index   index[T]
	convert func(object any) (T, bool)
	// listed says that the whole list was read once.
	listed atomic.Bool
}

var _ cache.TransformingStore = (*reflectorStore[any])(nil)

// Transformer implements cache.TransformingStore: a first list that is streamed is shortened object by object.
func (m *reflectorStore[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return m.converted(object) }
}

func (m *reflectorStore[T]) converted(object any) (T, error) {
	if already, ok := object.(T); ok {
		return already, nil
	}
	short, ok := m.convert(object)
	if !ok {
		return short, fmt.Errorf("cannot keep a %T as a %T", object, short)
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

// Replace implements cache.ReflectorStore. One object that cannot be kept keeps no other from being known.
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

// Resync implements cache.ReflectorStore: there is nothing to do again.
func (m *reflectorStore[T]) Resync() error { return nil }
