package pool

import "iter"

// list is a doubly linked list whose links live in its elements, so that no operation allocates and an element
// leaves from the middle in O(1). An element's link is in one list at a time.
type list[T any] struct {
	first, last *link[T]
	len         int
}

type link[T any] struct {
	prev, next *link[T]
	in         *list[T]
	value      *T
}

func (l *list[T]) push(k *link[T]) {
	k.in, k.prev = l, l.last
	if k.prev == nil {
		l.first = k
	} else {
		k.prev.next = k
	}
	l.last = k
	l.len++
}

// remove takes k out of the list it is in, if any.
func (k *link[T]) remove() {
	l := k.in
	if l == nil {
		return
	}
	if k.prev == nil {
		l.first = k.next
	} else {
		k.prev.next = k.next
	}
	if k.next == nil {
		l.last = k.prev
	} else {
		k.next.prev = k.prev
	}
	k.in, k.prev, k.next = nil, nil, nil
	l.len--
}

func (l *list[T]) front() *T {
	if l.first == nil {
		return nil
	}
	return l.first.value
}

// all yields the elements from first to last; the loop may remove the one it holds.
func (l *list[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for k := l.first; k != nil; {
			next := k.next
			if !yield(k.value) {
				return
			}
			k = next
		}
	}
}

// backward yields the elements from last to first; the loop may remove the one it holds.
func (l *list[T]) backward() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for k := l.last; k != nil; {
			prev := k.prev
			if !yield(k.value) {
				return
			}
			k = prev
		}
	}
}
