// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
)

const sdkModule = "github.com/pulumi/pulumi-gcp/sdk/v8"

// Schema knows the properties of resources by the source of the SDK that our
// programs are compiled against. It reads a type when it is first asked for:
// the whole SDK has hundreds of megabytes.
type Schema struct {
	dir string

	mu        sync.Mutex
	resources map[string]*object // by token
	structs   map[string]*object // by package and name
	sources   map[string][]byte  // the pulumiTypes files of a package, in one
}

// object is a set of named properties.
type object struct {
	name   string
	fields map[string]property
}

// property is one of them.
type property struct {
	// kind is Go's: String, Bool, Int, Float64, Slice, Map, Struct or
	// Interface, which stands for anything.
	kind     reflect.Kind
	required bool
	elem     *property // of a Slice or a Map
	object   string    // of a Struct
	pkg      string    // where object is declared
}

// NewSchema finds the SDK that the module in the working directory uses.
func NewSchema(ctx context.Context) (*Schema, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", sdkModule).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return nil, fmt.Errorf("finding %s: %s", sdkModule, bytes.TrimSpace(failed.Stderr))
	}
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", sdkModule, err)
	}
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		return nil, fmt.Errorf("finding %s: it is not downloaded", sdkModule)
	}
	return &Schema{
		dir:       filepath.Join(dir, "go", "gcp"),
		resources: map[string]*object{}, structs: map[string]*object{}, sources: map[string][]byte{},
	}, nil
}

// Check returns what is wrong with the inputs of a resource, one sentence for
// each property at fault. An error means that the SDK has no such resource.
func (s *Schema) Check(typ string, inputs map[string]any) ([]failure, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.resource(typ)
	if err != nil {
		return nil, err
	}
	var out []failure
	err = s.checkObject(o, inputs, "", &out)
	slices.SortFunc(out, func(a, b failure) int { return strings.Compare(a.path, b.path) })
	return out, err
}

func (s *Schema) checkObject(o *object, inputs map[string]any, path string, out *[]failure) error {
	for name, v := range inputs {
		p, ok := o.fields[name]
		if !ok {
			*out = append(*out, failure{path + name, fmt.Sprintf("%s has no such property", o.name)})
			continue
		}
		if err := s.checkValue(p, v, path+name, out); err != nil {
			return err
		}
	}
	for name, p := range o.fields {
		if p.required && inputs[name] == nil {
			*out = append(*out, failure{path + name, "it is required"})
		}
	}
	return nil
}

func (s *Schema) checkValue(p property, v any, path string, out *[]failure) error {
	if v == nil || isUnknown(v) || p.kind == reflect.Interface {
		return nil
	}
	ok := false
	switch v := v.(type) {
	case string:
		ok = p.kind == reflect.String
	case bool:
		ok = p.kind == reflect.Bool
	case float64:
		ok = p.kind == reflect.Float64 || p.kind == reflect.Int && v == math.Trunc(v)
	case []any:
		if ok = p.kind == reflect.Slice; !ok {
			break
		}
		for i, x := range v {
			if err := s.checkValue(*p.elem, x, fmt.Sprintf("%s[%d]", path, i), out); err != nil {
				return err
			}
		}
	case map[string]any:
		switch p.kind {
		case reflect.Map:
			ok = true
			for k, x := range v {
				if err := s.checkValue(*p.elem, x, path+"."+k, out); err != nil {
					return err
				}
			}
		case reflect.Struct:
			o, err := s.nested(p.pkg, p.object)
			if err != nil {
				return err
			}
			return s.checkObject(o, v, path+".", out)
		default:
		}
	}
	if !ok {
		*out = append(*out, failure{path, fmt.Sprintf("it is a %T, and must be a %s", v, p.kind)})
	}
	return nil
}

// resource returns the inputs of a resource type, "gcp:dns/recordSet:RecordSet".
func (s *Schema) resource(typ string) (*object, error) {
	if o := s.resources[typ]; o != nil {
		return o, nil
	}
	pkg, rest, ok := strings.Cut(strings.TrimPrefix(typ, "gcp:"), "/")
	_, name, named := strings.Cut(rest, ":")
	if !ok || !named || pkg != filepath.Base(pkg) {
		return nil, fmt.Errorf("%.80q is not the type of a resource of gcp", typ)
	}
	files, err := filepath.Glob(filepath.Join(s.dir, pkg, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("reading the SDK: %w", err)
	}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "pulumiTypes") {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the SDK: %w", err)
		}
		if !bytes.Contains(src, []byte(`RegisterResource("`+typ+`"`)) {
			continue
		}
		o, err := inputsOf(src, pkg, name)
		if err != nil {
			return nil, fmt.Errorf("reading the SDK's %s: %w", filepath.Base(file), err)
		}
		s.resources[typ] = o
		return o, nil
	}
	return nil, fmt.Errorf("the SDK has no %s", typ)
}

// inputsOf reads the plain struct of a constructor's arguments. What it marks
// as a pointer may still be required: then the constructor asks for it.
func inputsOf(src []byte, pkg, name string) (*object, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var o *object
	tags := map[string]string{}
	required := map[string]bool{}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				t, ok := spec.(*ast.TypeSpec)
				if !ok || !unicode.IsLower(rune(t.Name.Name[0])) || !strings.EqualFold(t.Name.Name, name+"Args") {
					continue
				}
				body, ok := t.Type.(*ast.StructType)
				if !ok {
					continue
				}
				o = fieldsOf(body, pkg, name)
				for _, f := range body.Fields.List {
					if len(f.Names) == 1 {
						tags[f.Names[0].Name] = tagOf(f)
					}
				}
			}
		case *ast.FuncDecl:
			if d.Name.Name == "New"+name && d.Body != nil {
				ast.Inspect(d.Body, func(n ast.Node) bool {
					if field, ok := askedFor(n); ok {
						required[field] = true
					}
					return true
				})
			}
		}
	}
	if o == nil {
		return nil, fmt.Errorf("it has no arguments of %s", name)
	}
	for field := range required {
		p := o.fields[tags[field]]
		p.required = true
		o.fields[tags[field]] = p
	}
	return o, nil
}

// askedFor recognises `if args.Field == nil`.
func askedFor(n ast.Node) (string, bool) {
	cond, ok := n.(*ast.BinaryExpr)
	if !ok || cond.Op != token.EQL {
		return "", false
	}
	sel, ok := cond.X.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	x, ok := sel.X.(*ast.Ident)
	null, isIdent := cond.Y.(*ast.Ident)
	return sel.Sel.Name, ok && isIdent && x.Name == "args" && null.Name == "nil"
}

func fieldsOf(body *ast.StructType, pkg, name string) *object {
	o := &object{name: name, fields: map[string]property{}}
	for _, f := range body.Fields.List {
		if tag := tagOf(f); tag != "" {
			o.fields[tag] = propertyOf(f.Type, pkg)
		}
	}
	return o
}

func tagOf(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	return reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("pulumi")
}

func propertyOf(t ast.Expr, pkg string) property {
	switch t := t.(type) {
	case *ast.StarExpr:
		p := propertyOf(t.X, pkg)
		p.required = false
		return p
	case *ast.ArrayType:
		elem := propertyOf(t.Elt, pkg)
		return property{kind: reflect.Slice, elem: &elem}
	case *ast.MapType:
		elem := propertyOf(t.Value, pkg)
		return property{kind: reflect.Map, elem: &elem}
	case *ast.Ident:
		switch t.Name {
		case "string":
			return property{kind: reflect.String, required: true}
		case "bool":
			return property{kind: reflect.Bool, required: true}
		case "int":
			return property{kind: reflect.Int, required: true}
		case "float64":
			return property{kind: reflect.Float64, required: true}
		case "any":
			return property{kind: reflect.Interface}
		}
		return property{kind: reflect.Struct, object: t.Name, pkg: pkg, required: true}
	}
	return property{kind: reflect.Interface}
}

// nested returns a struct of the package's pulumiTypes files. They have up to
// ten megabytes, so only the one declaration is parsed.
func (s *Schema) nested(pkg, name string) (*object, error) {
	key := pkg + "." + name
	if o := s.structs[key]; o != nil {
		return o, nil
	}
	if s.sources[pkg] == nil {
		files, err := filepath.Glob(filepath.Join(s.dir, pkg, "pulumiTypes*.go"))
		if err != nil {
			return nil, fmt.Errorf("reading the SDK: %w", err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("reading the SDK: %w", err)
			}
			s.sources[pkg] = append(s.sources[pkg], src...)
		}
	}
	src := s.sources[pkg]
	begin := bytes.Index(src, []byte("\ntype "+name+" struct {\n"))
	if begin < 0 {
		return nil, fmt.Errorf("the SDK's %s has no %s", pkg, name)
	}
	length := bytes.Index(src[begin:], []byte("\n}\n"))
	if length < 0 {
		return nil, fmt.Errorf("the SDK's %s ends within %s", pkg, name)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+string(src[begin:begin+length])+"\n}\n", parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading the SDK's %s: %w", name, err)
	}
	decl, ok := file.Decls[0].(*ast.GenDecl)
	if !ok {
		return nil, fmt.Errorf("the SDK's %s is no type", name)
	}
	spec, ok := decl.Specs[0].(*ast.TypeSpec)
	if !ok {
		return nil, fmt.Errorf("the SDK's %s is no type", name)
	}
	body, ok := spec.Type.(*ast.StructType)
	if !ok {
		return nil, fmt.Errorf("the SDK's %s is no struct", name)
	}
	o := fieldsOf(body, pkg, name)
	s.structs[key] = o
	return o, nil
}

// Has tells whether a resource type has a property at the path.
func (s *Schema) Has(typ, path string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.resource(typ)
	if err != nil {
		return false, err
	}
	keys := strings.Split(path, ".")
	for i, k := range keys {
		p, ok := o.fields[k]
		if !ok || i == len(keys)-1 {
			return ok, nil
		}
		if p.kind != reflect.Struct {
			return p.kind == reflect.Map, nil
		}
		if o, err = s.nested(p.pkg, p.object); err != nil {
			return false, err
		}
	}
	return false, nil
}
