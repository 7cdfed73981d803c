package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/suggest"
)

// envPrefix begins every variable of the configuration.
const envPrefix = "QOSPROXY_"

// serviceLink matches the end of the variables that Kubernetes sets in every
// pod for a service whose name begins with qosproxy.
var serviceLink = regexp.MustCompile(`_?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// serviceAddress matches the value of the one among them that could be ours by
// name, such as QOSPROXY_CASSANDRA_PORT for a service qosproxy-cassandra.
var serviceAddress = regexp.MustCompile(`^(tcp|udp|sctp)://`)

// Variable returns the environment variable of a key path, such as
// QOSPROXY_DEFAULTS_SLA_TARGET for defaults.sla.target. Every key outside of
// tables and clients has one.
func Variable(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// environment sets values from env, in the form of os.Environ. Commas separate
// the items of a list. A variable that begins with QOSPROXY_ and has no key is
// refused, except those that Kubernetes sets for services.
func (d *decoder) environment(c *Config, env []string) {
	type leaf struct {
		path  string
		value reflect.Value
	}
	known := map[string]leaf{}
	var variables []string
	for path, v := range leaves(reflect.ValueOf(c).Elem()) {
		known[Variable(path)] = leaf{path, v}
		variables = append(variables, Variable(path))
	}
	for _, entry := range slices.Sorted(slices.Values(env)) {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || fromKubernetes(name, value) {
			continue
		}
		l, ok := known[name]
		if !ok {
			d.problems = append(d.problems, unknownVariable(name, variables))
			continue
		}
		maps.DeleteFunc(d.origin.at, func(path string, _ place) bool { return strings.HasPrefix(path, l.path+"[") }) // items of the file
		d.origin.at[l.path] = place{variable: name}
		if err := setVariable(l.value, value); err != nil {
			d.problems = append(d.problems, &Error{Variable: name, Key: l.path, Message: err.Error()})
		}
	}
}

// fromKubernetes reports whether Kubernetes has set the variable.
func fromKubernetes(name, value string) bool {
	return serviceLink.MatchString(strings.TrimPrefix(name, envPrefix)) ||
		strings.HasSuffix(name, "_PORT") && serviceAddress.MatchString(value)
}

// setVariable sets a scalar or a list of scalars.
func setVariable(dst reflect.Value, value string) error {
	if dst.Kind() != reflect.Slice || isScalar(dst.Type()) {
		return setScalar(dst, value)
	}
	items := reflect.MakeSlice(dst.Type(), 0, strings.Count(value, ",")+1)
	for text := range strings.SplitSeq(value, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		item := reflect.New(dst.Type().Elem()).Elem()
		if err := setScalar(item, text); err != nil {
			return err
		}
		items = reflect.Append(items, item)
	}
	dst.Set(items)
	return nil
}

// unknownVariable returns the error for a variable without its value, which may
// be secret.
func unknownVariable(name string, known []string) *Error {
	p := &Error{Variable: name}
	switch near := suggest.Nearest(name, known); {
	case strings.HasSuffix(name, "_PASSWORD"):
		p.Message = "a password is not read from the environment; write it to a file and set " + Variable("cassandra.password_file") + " to the path"
	case name == envPrefix+"TABLES" || strings.HasPrefix(name, envPrefix+"TABLES_"):
		p.Message = "tables can be listed only in the configuration file; unset the variable"
	case name == envPrefix+"CLIENTS" || strings.HasPrefix(name, envPrefix+"CLIENTS_"):
		p.Message = "clients can be listed only in the configuration file; unset the variable"
	case near != "":
		p.Message = fmt.Sprintf("unknown variable, did you mean %s?", near)
	default:
		p.Message = "unknown variable; unset it, or see 'qosproxy config show' for all keys"
	}
	return p
}
