// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

type closeFlag struct{ closed bool }

func (c *closeFlag) Close() error { c.closed = true; return nil }

func TestTheOldestConnectionMakesRoom(t *testing.T) {
	lost := 0
	table := connTable{max: 2, lose: func() { lost++ }}
	var c [4]closeFlag
	doneFirst := table.add(&c[0])
	table.add(&c[1])
	table.add(&c[2])
	assert.Equal(t, []bool{true, false, false}, []bool{c[0].closed, c[1].closed, c[2].closed})
	assert.Equal(t, 1, lost, "a connection that was cut young may have lost something")
	doneFirst() // of an evicted connection
	assert.Equal(t, 2, table.list.Len())
	if o, ok := table.list.Front().Value.(*openConn); assert.True(t, ok) {
		o.opened = time.Now().Add(-time.Minute)
	}
	table.add(&c[3])
	assert.True(t, c[1].closed)
	assert.Equal(t, 1, lost, "an old one had its time")
}

func TestAfterTheEndEveryConnectionIsClosed(t *testing.T) {
	table := connTable{max: 2, lose: func() {}}
	var a, b closeFlag
	table.add(&a)
	table.closeAll()
	table.add(&b)
	assert.True(t, a.closed && b.closed)
	table.evictOldest()
	table.evictOldest() // an empty table is left alone
}
