"""Tasks (page: basic/utilities/tasks): a request that goes on after it was answered.

A requestor asks that a request be run as a task. The receiver answers at once, with the task, and runs the
request meanwhile. The requestor fetches the result later, by the id of the task, over any connection.

    requestor -> receiver   tools/call {..., task: {ttl?}}     -> {task: Task}, status "working"
    requestor -> receiver   tasks/get {taskId}                 -> Task, as often as `pollInterval` allows
    receiver -> requestor   notifications/tasks/status Task    perhaps, when the status changes
    requestor -> receiver   tasks/result {taskId}              -> waits, then the result of the request itself
    receiver -> requestor       elicitation/create, ...        while that waits: the task's own questions
    requestor -> receiver   tasks/cancel {taskId}              -> Task, status "cancelled"
    requestor -> receiver   tasks/list {cursor?}               -> {tasks: [Task], nextCursor?}

Either side may be the requestor: a client runs sampling and elicitation as tasks for its server.

    heading                                              module
    Data Types, Task Status Lifecycle                    data_types
    Behavior Requirements, Security Considerations       behavior_requirements
    Capabilities, Protocol Messages, Error Handling      protocol_messages

Revisions   2025-11-25. In 2026-07-28 tasks are an extension (mcp_ref/extensions/tasks), which a server may
            use where a client declares it. `behavior_requirements` runs the tasks of both.
"""
