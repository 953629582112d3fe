"""What each route answers, typed. The OpenAPI document is made from it, and tests hold every answer against that."""
