"""The operator's desk: all that a person on call may see and do, over the open systems of a deployment.

    HTTP   CLI   console   demo   test kit
       \\    |      |        |      /
        desk: find, list, show, act        one view of each thing, one redaction, one verb for each act
          |
        kernel, tables

Whatever stands above reaches the tables through here, so that two front ends cannot show different things.
"""
