package cluster

import (
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// filed is where objects of one kind are kept in the short form T. It is written by one goroutine.
type filed[T any] interface {
	put(T)
	drop(namespace, name string)
	replace([]T)
}

// mirror is the store of a Reflector: it takes each object to its short form before anything keeps it, and files that.
type mirror[T any] struct {
	filed   filed[T]
	shorten func(object any) (T, bool)
	// listed says that the whole list was read once.
	listed atomic.Bool
}

var _ cache.TransformingStore = (*mirror[any])(nil)

// Transformer implements cache.TransformingStore: a first list that is streamed is shortened object by object.
func (m *mirror[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return m.short(object) }
}

func (m *mirror[T]) short(object any) (T, error) {
	if already, ok := object.(T); ok {
		return already, nil
	}
	short, ok := m.shorten(object)
	if !ok {
		return short, fmt.Errorf("cannot keep a %T as a %T", object, short)
	}
	return short, nil
}

// Add implements cache.ReflectorStore.
func (m *mirror[T]) Add(object any) error {
	short, err := m.short(object)
	if err == nil {
		m.filed.put(short)
	}
	return err
}

// Update implements cache.ReflectorStore.
func (m *mirror[T]) Update(object any) error { return m.Add(object) }

// Delete implements cache.ReflectorStore.
func (m *mirror[T]) Delete(object any) error {
	of, err := meta.Accessor(object)
	if err == nil {
		m.filed.drop(of.GetNamespace(), of.GetName())
	}
	return err
}

// Replace implements cache.ReflectorStore. One object that cannot be kept keeps no other from being known.
func (m *mirror[T]) Replace(objects []any, _ string) error {
	all := make([]T, 0, len(objects))
	for i, object := range objects {
		if short, err := m.short(object); err == nil {
			all = append(all, short)
		}
		objects[i] = nil
	}
	m.filed.replace(all)
	m.listed.Store(true)
	return nil
}

// Resync implements cache.ReflectorStore: there is nothing to do again.
func (m *mirror[T]) Resync() error { return nil }
