// Package kit is a library.
package kit

// Cache has what was added, and forgets the oldest one above its bound. 0: there is no bound.
type Cache struct {
	bound int
	items map[string][]byte
	order []string
}

// NewCache makes one.
func NewCache(bound int) *Cache { return &Cache{bound: bound, items: map[string][]byte{}} }

// Add keeps a value.
func (c *Cache) Add(name string, value []byte) {
	c.items[name] = value
	c.order = append(c.order, name)
	if c.bound > 0 && len(c.order) > c.bound {
		delete(c.items, c.order[0])
		c.order = append([]string{}, c.order[1:]...)
	}
}

// Group runs calls at once.
type Group struct{ running int }

// Go runs a call in a goroutine.
func (g *Group) Go(call func()) {
	g.running++
	go call()
}

var listeners = map[string][]func(){}

// Listen adds a listener.
func Listen(name string, call func()) { listeners[name] = append(listeners[name], call) }

// Forget takes all listeners away.
func Forget(name string) { delete(listeners, name) }
