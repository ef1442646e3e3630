// SPDX-License-Identifier: Apache-2.0

package kernel

import "golang.org/x/sys/unix"

// archCalls are calls that this processor alone has.
func archCalls() []call {
	// Function 0 with no room only asks for the size of a table.
	return []call{{"modify_ldt", "CVE-2017-17053", raw(unix.SYS_MODIFY_LDT, 0, 0, 0)}}
}
