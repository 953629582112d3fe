"""Where bytes of strangers are read: in a child that may die, and can do nothing but read its input and answer.

    worker (`parent`)                      fork server (`server`)              child
    starts it once, by exec      ------->  imports the task once
    input, output, limits        ------->  forks              ------------->   limits itself (`confine`), then reads
    keeps the wall clock; hangs up to kill --> kills          ------------->   writes its output, ends with a code
    reads how it ended           <-------  reaps, and tells

A `Task` is named as `module:NAME`, so that the worker itself never loads a parser of hostile files.

Why so: docs/decisions/0020-one-sandbox-with-a-fork-server.md
"""
