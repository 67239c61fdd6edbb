// RocketMQ's Go client, told what to do a line at a time: a JSON object on standard input, with the operation's name in "do", and one in
// answer on standard output: {"ok": ...} or {"error": text}. The Python side is ../gopher.py.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// What has not come by then never will.
const patienceSeconds = 180

// An order; each operation has its own of these fields.
type order struct {
	Do        string
	Names     string
	Topic     string
	Group     string
	Member    string
	How       string
	Tags      string
	SQL       string
	Orderly   bool
	Broadcast bool
	Fails     int
	Count     int
	Queue     int
	Offset    int64
	Letters   []letter
	Ends      []string
}

type letter struct {
	Body       []byte            `json:"body"`
	Tags       string            `json:"tags"`
	Keys       string            `json:"keys"`
	Properties map[string]string `json:"properties"`
	Level      int               `json:"level"`
	Queue      int               `json:"queue"`
}

// A message as the client shows it.
type shown struct {
	Topic      string            `json:"topic"`
	Queue      int               `json:"queue"`
	Offset     int64             `json:"offset"`
	ID         string            `json:"id"`
	Body       []byte            `json:"body"`
	Tags       string            `json:"tags"`
	Keys       string            `json:"keys"`
	Properties map[string]string `json:"properties"`
	Flag       int32             `json:"flag"`
	Tries      int32             `json:"tries"`
	StoredMs   int64             `json:"stored_ms"`
}

func show(message *primitive.MessageExt) shown {
	found := shown{
		Topic: message.Topic, Queue: message.Queue.QueueId, Offset: message.QueueOffset, ID: message.OffsetMsgId, Body: message.Body,
		Tags: message.GetTags(), Keys: message.GetKeys(), Flag: message.Flag, Tries: message.ReconsumeTimes,
		StoredMs: message.StoreTimestamp, Properties: map[string]string{},
	}
	for name, value := range message.GetProperties() {
		found.Properties[name] = value
	}
	return found
}

var instances int64

// Clients of one name share their connections, and belong to the name server of the first.
func instance() string {
	return fmt.Sprintf("gopher-%d-%d", os.Getpid(), atomic.AddInt64(&instances, 1))
}

func servers(names string) primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{names})
}

// Producers and consumers that are open. Each ends by closing its connection, without waiting for what it sent one-way.
var closers = map[string]interface{ Shutdown() error }{}

func leave(told *order) (interface{}, error) {
	left := closers[told.Member]
	delete(closers, told.Member)
	return nil, left.Shutdown()
}

func obey(told *order) (interface{}, error) {
	switch told.Do {
	case "send":
		return send(told)
	case "transact":
		return transact(told)
	case "ask":
		return ask(told)
	case "pull":
		return pull(told)
	case "poll":
		return poll(told)
	case "join":
		return join(told)
	case "take":
		return take(told)
	case "came":
		return came(told)
	case "leave":
		return leave(told)
	}
	return nil, fmt.Errorf("no such operation: %q", told.Do)
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var told order
		answer := map[string]interface{}{}
		if err = json.Unmarshal(line, &told); err == nil {
			answer["ok"], err = obey(&told)
		}
		if err != nil {
			answer = map[string]interface{}{"error": err.Error()}
		}
		answers.Encode(answer)
	}
}
