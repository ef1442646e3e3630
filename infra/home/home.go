// SPDX-License-Identifier: Apache-2.0

// Package home says where all files of Stockade's on this machine lie.
package home

import (
	"errors"
	"path/filepath"
)

// Env names the environment variable that moves them to another folder.
const Env = "STOCKADE_HOME"

// Dir returns the folder as an absolute path: [Env], else stockade in the user's
// cache folder ($XDG_CACHE_HOME, ~/.cache). getenv reads the environment.
//
// Errors: none of the variables is set.
func Dir(getenv func(string) string) (string, error) {
	switch {
	case getenv(Env) != "":
		return filepath.Abs(getenv(Env))
	case getenv("XDG_CACHE_HOME") != "":
		return filepath.Abs(filepath.Join(getenv("XDG_CACHE_HOME"), "stockade"))
	case getenv("HOME") != "":
		return filepath.Abs(filepath.Join(getenv("HOME"), ".cache", "stockade"))
	}
	return "", errors.New("finding a folder for stockade's files: set " + Env + ", XDG_CACHE_HOME or HOME")
}
