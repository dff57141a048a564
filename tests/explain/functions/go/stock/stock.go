// Package stock is of the same module.
package stock

import "strconv"

// Store has an item for each name.
type Store struct{ items map[string]*Item }

// Item is what is kept of a name.
type Item struct {
	Name string
	Body []byte
}

// New makes an empty store.
func New() *Store { return &Store{items: map[string]*Item{}} }

// Put keeps an item of this name.
func (s *Store) Put(number int, body []byte) {
	name := "item-" + strconv.Itoa(number)
	s.items[name] = &Item{Name: name, Body: body} // stored
}

// Get returns the item of this name, or nil.
func (s *Store) Get(name string) *Item { return s.items[name] }
